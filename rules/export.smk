"""Export: stores as images of other formats, of those that the configuration asks for."""


rule export_difference:
    input:
        post=out.ingested(store("post")),
        aligned=out.registered(store("aligned_pre")),
        scale=out.subtracted("scale.json"),
        gain_map=out.subtracted("details/gain_map.npz"),
        written=of_batch(job_params.difference_if_written),
    output:
        **outputs("export_difference"),
    log:
        **logs("export_difference"),
    benchmark:
        record("benchmarks", "export_difference")
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["export_difference"]
    resources:
        **resources("export_difference"),
    params:
        memory=memory("export_difference"),
        version=2,
    script:
        "../scripts/export.py"


use rule export_difference as export_snr with:
    input:
        store=out.detected(store("snr")),
    output:
        **outputs("export_snr"),
    log:
        **logs("export_snr"),
    benchmark:
        record("benchmarks", "export_snr")


use rule export_difference as export_aligned_pre with:
    input:
        store=out.registered(store("aligned_pre")),
    output:
        **outputs("export_aligned_pre"),
    log:
        **logs("export_aligned_pre"),
    benchmark:
        record("benchmarks", "export_aligned_pre")


use rule export_difference as export_raw with:
    input:
        store=out.ingested(store("{role}")),
    output:
        **outputs("export_raw"),
    log:
        **logs("export_raw"),
    benchmark:
        record("benchmarks", "export_raw")
