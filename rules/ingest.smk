"""Ingest: each raw image becomes a sharded OME-Zarr store of its signal, with a pyramid."""


rule ingest_band:
    input:
        raw=raw_image,
        plan=out.pair("plan.json"),
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
    script:
        "../scripts/ingest.py"


rule ingest:
    input:
        raw=raw_image,
        plan=out.pair("plan.json"),
        bands=bands_of("ingest", out.pair(store("{role}"))),
    output:
        out.pair(store("{role}")),
        digests=out.digests("ingest_{role}", "pair"),
    log:
        out.record("logs", "ingest_{role}", "pair"),
        telemetry=out.record("telemetry", "ingest_{role}", "pair"),
    benchmark:
        out.record("benchmarks", "ingest_{role}", "pair")
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: 1  # the two images of a pair are ingested side by side
    resources:
        mem_mb=mem_mb("ingest"),
        disk_mb=disk_mb("post"),
        runtime=runtime(0.05),
        attempt=this_attempt,
    params:
        version=1,
    script:
        "../scripts/ingest.py"
