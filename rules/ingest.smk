"""Ingest: each raw image becomes a sharded OME-Zarr store of its signal, with a pyramid."""


rule ingest:
    input:
        raw=raw_image,
        plan=out.pair("plan.json"),
    output:
        out.pair(store("{role}")),
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
