"""Register: the map from post to pre, with residuals on held-out blocks and a verdict."""


rule register:
    input:
        unpack(of_batch(job_params.register_inputs)),
        post=out.ingested(store("post")),
        pre=out.ingested(store("pre")),
    output:
        **outputs("register"),
    log:
        **logs("register"),
    benchmark:
        record("benchmarks", "register")
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["register"]
    resources:
        **resources("register"),
    params:
        memory=memory("register"),
        version=14,
        settings=of_batch(job_params.register_settings),
    script:
        "../scripts/register.py"
