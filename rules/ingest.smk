"""Ingest: the plan of a pair, and each raw image as a sharded OME-Zarr store of its signal."""


rule ingest_band:
    input:
        post=raw_post,
        pre=raw_pre,
    output:
        temp(out.band(out.pair(store("{role}")))),
    log:
        out.record("logs", "ingest_{role}_{band}", "pair"),
        telemetry=out.record("telemetry", "ingest_{role}_{band}", "pair"),
    benchmark:
        out.record("benchmarks", "ingest_{role}_{band}", "pair")
    conda:
        "../envs/unglow.yaml"
    threads: 1
    resources:
        mem_mb=mem_mb("ingest_band"),
        disk_mb=disk_mb("post", "ingest"),
        runtime=runtime(0.05, "ingest"),
        attempt=this_attempt,
    params:
        version=1,
        channel=channel_setting,
        post_header=header_of("post"),
        pre_header=header_of("pre"),
    script:
        "../scripts/ingest.py"


use rule ingest_band as ingest with:
    input:
        post=raw_post,
        pre=raw_pre,
        post_bands=raw_bands("post"),
        pre_bands=raw_bands("pre"),
    output:
        plan=out.pair("plan.json"),
        post=out.pair(store("post")),
        pre=out.pair(store("pre")),
        digests=out.digests("ingest", "pair"),
    log:
        out.record("logs", "ingest", "pair"),
        telemetry=out.record("telemetry", "ingest", "pair"),
    benchmark:
        out.record("benchmarks", "ingest", "pair")
    group:
        pair_group
    threads: 2  # the two images of a pair are ingested side by side
    resources:
        mem_mb=mem_mb("ingest"),
        disk_mb=raw_disk_mb,
        runtime=runtime(0.1),
        attempt=this_attempt,
