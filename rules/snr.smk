"""Signal to noise: the image that candidates are looked for on, if the configuration asks for it."""


rule snr:
    input:
        **detect_inputs,
    output:
        snr=out.subtracted(store("snr")),
        digests=out.digests("snr", "subtracted"),
    log:
        out.record("logs", "snr", "subtracted"),
        telemetry=out.record("telemetry", "snr", "subtracted"),
    benchmark:
        out.record("benchmarks", "snr", "subtracted")
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
        version=1,
        settings=of_batch(job_params.snr_settings),
    script:
        "../scripts/snr.py"
