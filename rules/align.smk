"""Align: pre warped once onto the post frame, with statistics from the same pass."""


rule align:
    input:
        post="<results>/<ingested>/post.ome.zarr/zarr.json",
        pre="<results>/<ingested>/pre.ome.zarr/zarr.json",
        transform="<results>/<registered>/transform.json",
        displacement="<results>/<registered>/details/displacement.npz",
    output:
        aligned="<results>/<registered>/aligned_pre.ome.zarr/zarr.json",
        statistics="<results>/<registered>/details/statistics.npz",
        bins="<results>/<registered>/details/bins.npz",
        digests="<results>/<registered>/details/digests/align.sha256",
    log:
        logs="<logs>/<registered>/align.log",
        telemetry="<telemetry>/<registered>/align.jsonl",
    benchmark:
        "<benchmarks>/<registered>/align.tsv"
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["align"]
    resources:
        **resources("align"),
    params:
        memory=memory("align"),
        version=version_of["align"],
    script:
        "../scripts/align.py"
