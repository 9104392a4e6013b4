"""Signal to noise: the image that the search uses, if the configuration asks for it."""


rule snr:
    input:
        **detect_inputs,
        same=of_batch(job_params.same_snr),
    output:
        snr="<results>/<detected>/snr.ome.zarr/zarr.json",
        digests="<results>/<detected>/details/digests/snr.sha256",
    log:
        logs="<logs>/<detected>/snr.log",
        telemetry="<telemetry>/<detected>/snr.jsonl",
    benchmark:
        "<benchmarks>/<detected>/snr.tsv"
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["snr"]
    resources:
        **resources("snr"),
    params:
        memory=memory("snr"),
        version=version_of["snr"],
        settings=of_batch(job_params.snr_settings),
    script:
        "../scripts/snr.py"
