"""Export: stores as images of other formats, of those that the configuration asks for."""


rule export_difference:
    input:
        post=out.ingested(store("post")),
        aligned=out.registered(store("aligned_pre")),
        scale=out.subtracted("scale.json"),
        gain_map=out.subtracted("gain_map.npz"),
        written=of_batch(job_params.difference_if_written),
    output:
        image=out.subtracted("exports/difference_{method}.{form}"),
        digests=out.digests("export_difference_{method}.{form}", "subtracted"),
    log:
        out.record("logs", "export_difference_{method}.{form}", "subtracted"),
        telemetry=out.record(
            "telemetry", "export_difference_{method}.{form}", "subtracted"
        ),
    benchmark:
        out.record("benchmarks", "export_difference_{method}.{form}", "subtracted")
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: 1
    resources:
        mem_mb=mem_mb("export_difference"),
        disk_mb=disk_mb("export_difference"),
        runtime=runtime("export_difference"),
        disk_streams=1,
        attempt=this_attempt,
    params:
        memory=memory("export_difference"),
        version=2,
    script:
        "../scripts/export.py"


use rule export_difference as export_snr with:
    input:
        store=out.detected(store("snr")),
    output:
        image=out.detected("exports/snr.{form}"),
        digests=out.digests("export_snr.{form}", "detected"),
    log:
        out.record("logs", "export_snr.{form}", "detected"),
        telemetry=out.record("telemetry", "export_snr.{form}", "detected"),
    benchmark:
        out.record("benchmarks", "export_snr.{form}", "detected")


use rule export_difference as export_aligned_pre with:
    input:
        store=out.registered(store("aligned_pre")),
    output:
        image=out.registered("exports/aligned_pre.{form}"),
        digests=out.digests("export_aligned_pre.{form}", "registered"),
    log:
        out.record("logs", "export_aligned_pre.{form}", "registered"),
        telemetry=out.record("telemetry", "export_aligned_pre.{form}", "registered"),
    benchmark:
        out.record("benchmarks", "export_aligned_pre.{form}", "registered")


use rule export_difference as export_raw with:
    input:
        store=out.ingested(store("{role}")),
    output:
        image=out.ingested("exports/{role}.{form}"),
        digests=out.digests("export_{role}.{form}", "ingested"),
    log:
        out.record("logs", "export_{role}.{form}", "ingested"),
        telemetry=out.record("telemetry", "export_{role}.{form}", "ingested"),
    benchmark:
        out.record("benchmarks", "export_{role}.{form}", "ingested")
