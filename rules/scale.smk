"""Scale: how much brighter the background became, by every method that is on."""


rule scale:
    input:
        post=out.ingested(store("post")),
        aligned=out.registered(store("aligned_pre")),
        statistics=out.registered("details/statistics.npz"),
        bins=out.registered("details/bins.npz"),
        transform=out.registered("transform.json"),
        plan=out.ingested("details/plan.json"),
        displacement=out.registered("details/displacement.npz"),
        controls=of_batch(job_params.control_scales),
    output:
        **outputs("scale"),
    log:
        **logs("scale"),
    benchmark:
        record("benchmarks", "scale")
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["scale"]
    resources:
        **resources("scale"),
    params:
        memory=memory("scale"),
        version=14,
        settings=of_batch(job_params.scale_settings),
    script:
        "../scripts/scale.py"
