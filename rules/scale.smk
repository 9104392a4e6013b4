"""Scale: how much brighter the background became, by every method that is on."""


rule scale:
    input:
        post="<results>/<ingested>/post.ome.zarr/zarr.json",
        aligned="<results>/<registered>/aligned_pre.ome.zarr/zarr.json",
        statistics="<results>/<registered>/details/statistics.npz",
        bins="<results>/<registered>/details/bins.npz",
        transform="<results>/<registered>/transform.json",
        plan="<results>/<ingested>/details/plan.json",
        displacement="<results>/<registered>/details/displacement.npz",
        controls=of_batch(job_params.control_scales),
    output:
        scale="<results>/<subtracted>/scale.json",
        gain_map="<results>/<subtracted>/details/gain_map.npz",
        digests="<results>/<subtracted>/details/digests/scale.sha256",
    log:
        logs="<logs>/<subtracted>/scale.log",
        telemetry="<telemetry>/<subtracted>/scale.jsonl",
    benchmark:
        "<benchmarks>/<subtracted>/scale.tsv"
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["scale"]
    resources:
        **resources("scale"),
    params:
        memory=memory("scale"),
        version=version_of["scale"],
        settings=of_batch(job_params.scale_settings),
    script:
        "../scripts/scale.py"
