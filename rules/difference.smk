"""Difference: post minus scaled pre of one method, and what is left by the others as well."""


rule difference:
    input:
        post="<results>/<ingested>/post.ome.zarr/zarr.json",
        aligned="<results>/<registered>/aligned_pre.ome.zarr/zarr.json",
        statistics="<results>/<registered>/details/statistics.npz",
        scale="<results>/<subtracted>/scale.json",
        gain_map="<results>/<subtracted>/details/gain_map.npz",
        same=of_batch(job_params.same_difference),
    output:
        difference="<results>/<subtracted>/difference.ome.zarr/zarr.json",
        histogram="<results>/<subtracted>/details/difference.histogram.npz",
        background="<results>/<subtracted>/details/difference.background.npz",
        blocks="<results>/<subtracted>/details/difference.blocks.npz",
        digests="<results>/<subtracted>/details/digests/difference.sha256",
    log:
        logs="<logs>/<subtracted>/difference.log",
        telemetry="<telemetry>/<subtracted>/difference.jsonl",
    benchmark:
        "<benchmarks>/<subtracted>/difference.tsv"
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["difference"]
    resources:
        **resources("difference"),
    params:
        memory=memory("difference"),
        version=version_of["difference"],
    script:
        "../scripts/difference.py"


use rule difference as difference_method with:
    output:
        difference="<results>/<subtracted>/difference_{method}.ome.zarr/zarr.json",
        digests="<results>/<subtracted>/details/digests/difference_{method}.sha256",
    log:
        logs="<logs>/<subtracted>/difference_{method}.log",
        telemetry="<telemetry>/<subtracted>/difference_{method}.jsonl",
    benchmark:
        "<benchmarks>/<subtracted>/difference_{method}.tsv"
