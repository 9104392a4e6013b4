"""Ingest: the plan of a pair, and each raw image as a sharded OME-Zarr store of its signal."""


rule ingest:
    input:
        post=of_batch(job_params.raw_image, role="post"),
        pre=of_batch(job_params.raw_image, role="pre"),
    output:
        plan="<results>/<ingested>/details/plan.json",
        post="<results>/<ingested>/post.ome.zarr/zarr.json",
        pre="<results>/<ingested>/pre.ome.zarr/zarr.json",
        digests="<results>/<ingested>/details/digests/ingest.sha256",
    log:
        logs="<logs>/<ingested>/ingest.log",
        telemetry="<telemetry>/<ingested>/ingest.jsonl",
    benchmark:
        "<benchmarks>/<ingested>/ingest.tsv"
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["ingest"]
    resources:
        **resources("ingest"),
    params:
        memory=memory("ingest"),
        version=version_of["ingest"],
        channel=of_batch(job_params.channel_setting),
        post_header=of_batch(job_params.header_record, role="post"),
        pre_header=of_batch(job_params.header_record, role="pre"),
    script:
        "../scripts/ingest.py"
