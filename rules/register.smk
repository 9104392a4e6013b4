"""Register: the map from post to pre, with residuals on held-out blocks and a verdict."""


rule register:
    input:
        unpack(of_batch(job_params.register_inputs)),
        post=out.ingested(store("post")),
        pre=out.ingested(store("pre")),
    output:
        transform=out.registered("transform.json"),
        displacement=out.registered("displacement.npz"),
        blocks=out.registered("blocks.csv"),
        digests=out.digests("register", "registered"),
    log:
        out.record("logs", "register", "registered"),
        telemetry=out.record("telemetry", "register", "registered"),
    benchmark:
        out.record("benchmarks", "register", "registered")
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: 2
    resources:
        mem_mb=mem_mb("register"),
        disk_mb=disk_mb("register"),
        runtime=runtime("register"),
        attempt=this_attempt,
    params:
        memory=memory("register"),
        version=11,
        settings=of_batch(job_params.register_settings),
    script:
        "../scripts/register.py"
