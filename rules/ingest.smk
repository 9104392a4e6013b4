"""Ingest: the plan of a pair, and each raw image as a sharded OME-Zarr store of its signal."""


rule ingest:
    input:
        post=of_batch(job_params.raw_image, role="post"),
        pre=of_batch(job_params.raw_image, role="pre"),
    output:
        plan=out.ingested("plan.json"),
        post=out.ingested(store("post")),
        pre=out.ingested(store("pre")),
        digests=out.digests("ingest", "ingested"),
    log:
        out.record("logs", "ingest", "ingested"),
        telemetry=out.record("telemetry", "ingest", "ingested"),
    benchmark:
        out.record("benchmarks", "ingest", "ingested")
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: 2  # the two images of a pair are ingested side by side
    resources:
        mem_mb=mem_mb("ingest"),
        disk_mb=disk_mb("ingest"),
        runtime=runtime("ingest"),
        disk_streams=1,
        attempt=this_attempt,
    params:
        memory=memory("ingest"),
        version=1,
        channel=of_batch(job_params.channel_setting),
        post_header=of_batch(job_params.header_record, role="post"),
        pre_header=of_batch(job_params.header_record, role="pre"),
    script:
        "../scripts/ingest.py"
