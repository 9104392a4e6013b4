"""Register: the map from post to pre, with residuals on held-out blocks and a verdict."""


rule register:
    input:
        unpack(of_batch(job_params.register_inputs)),
        post="<results>/<ingested>/post.ome.zarr/zarr.json",
        pre="<results>/<ingested>/pre.ome.zarr/zarr.json",
    output:
        transform="<results>/<registered>/transform.json",
        displacement="<results>/<registered>/details/displacement.npz",
        blocks="<results>/<registered>/details/blocks.csv",
        digests="<results>/<registered>/details/digests/register.sha256",
    log:
        logs="<logs>/<registered>/register.log",
        telemetry="<telemetry>/<registered>/register.jsonl",
    benchmark:
        "<benchmarks>/<registered>/register.tsv"
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["register"]
    resources:
        **resources("register"),
    params:
        memory=memory("register"),
        version=version_of["register"],
        settings=of_batch(job_params.register_settings),
    script:
        "../scripts/register.py"
