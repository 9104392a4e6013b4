"""Scale: how much brighter the background became, by every method that is on."""


rule scale:
    input:
        post=out.ingested(store("post")),
        aligned=out.registered(store("aligned_pre")),
        statistics=out.registered("statistics.npz"),
        bins=out.registered("bins.npz"),
        transform=out.registered("transform.json"),
        displacement=out.registered("displacement.npz"),
    output:
        scale=out.subtracted("scale.json"),
        gain_map=out.subtracted("gain_map.npz"),
        digests=out.digests("scale", "subtracted"),
    log:
        out.record("logs", "scale", "subtracted"),
        telemetry=out.record("telemetry", "scale", "subtracted"),
    benchmark:
        out.record("benchmarks", "scale", "subtracted")
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: 1
    resources:
        mem_mb=mem_mb("scale"),
        disk_mb=disk_mb("scale"),
        runtime=runtime("scale"),
        attempt=this_attempt,
    params:
        memory=memory("scale"),
        version=9,
        settings=of_batch(job_params.scale_settings),
    script:
        "../scripts/scale.py"
