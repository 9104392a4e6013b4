"""Signal to noise: the image that the search uses, if the configuration asks for it."""


rule snr:
    input:
        **detect_inputs,
        same=of_batch(job_params.same_snr),
    output:
        **outputs("snr"),
    log:
        **logs("snr"),
    benchmark:
        record("benchmarks", "snr")
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["snr"]
    resources:
        **resources("snr"),
    params:
        memory=memory("snr"),
        version=2,
        settings=of_batch(job_params.snr_settings),
    script:
        "../scripts/snr.py"
