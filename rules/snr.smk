"""Signal to noise: the image that candidates are looked for on, if the configuration asks for it."""


rule snr:
    input:
        **detect_inputs,
        same=of_batch(job_params.same_snr),
    output:
        snr=out.detected(store("snr")),
        digests=out.digests("snr", "detected"),
    log:
        out.record("logs", "snr", "detected"),
        telemetry=out.record("telemetry", "snr", "detected"),
    benchmark:
        out.record("benchmarks", "snr", "detected")
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: 2
    resources:
        mem_mb=mem_mb("snr"),
        disk_mb=disk_mb("snr"),
        runtime=runtime("snr"),
        attempt=this_attempt,
    params:
        memory=memory("snr"),
        version=1,
        settings=of_batch(job_params.snr_settings),
    script:
        "../scripts/snr.py"
