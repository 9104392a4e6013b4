"""Difference: post minus scaled pre of one method, and what is left by the others as well."""


rule difference:
    input:
        post=out.ingested(store("post")),
        aligned=out.registered(store("aligned_pre")),
        statistics=out.registered("details/statistics.npz"),
        scale=out.subtracted("scale.json"),
        gain_map=out.subtracted("details/gain_map.npz"),
        same=of_batch(job_params.same_difference),
    output:
        **outputs("difference"),
    log:
        **logs("difference"),
    benchmark:
        record("benchmarks", "difference")
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["difference"]
    resources:
        **resources("difference"),
    params:
        memory=memory("difference"),
        version=7,
    script:
        "../scripts/difference.py"


use rule difference as difference_method with:
    output:
        **outputs("difference_method"),
    log:
        **logs("difference_method"),
    benchmark:
        record("benchmarks", "difference_method")
