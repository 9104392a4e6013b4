"""Export: stores as images of other formats, of those that the configuration asks for."""


rule export_difference:
    input:
        post="<results>/<ingested>/post.ome.zarr/zarr.json",
        aligned="<results>/<registered>/aligned_pre.ome.zarr/zarr.json",
        scale="<results>/<subtracted>/scale.json",
        gain_map="<results>/<subtracted>/details/gain_map.npz",
        written=of_batch(job_params.difference_if_written),
    output:
        image="<results>/<subtracted>/exports/difference_{method}.{form}",
        digests="<results>/<subtracted>/details/digests/export_difference_{method}.{form}.sha256",
    log:
        logs="<logs>/<subtracted>/export_difference_{method}.{form}.log",
        telemetry="<telemetry>/<subtracted>/export_difference_{method}.{form}.jsonl",
    benchmark:
        "<benchmarks>/<subtracted>/export_difference_{method}.{form}.tsv"
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["export_difference"]
    resources:
        **resources("export_difference"),
    params:
        memory=memory("export_difference"),
        version=version_of["export_difference"],
    script:
        "../scripts/export.py"


use rule export_difference as export_snr with:
    input:
        store="<results>/<detected>/snr.ome.zarr/zarr.json",
    output:
        image="<results>/<detected>/exports/snr.{form}",
        digests="<results>/<detected>/details/digests/export_snr.{form}.sha256",
    log:
        logs="<logs>/<detected>/export_snr.{form}.log",
        telemetry="<telemetry>/<detected>/export_snr.{form}.jsonl",
    benchmark:
        "<benchmarks>/<detected>/export_snr.{form}.tsv"


use rule export_difference as export_aligned_pre with:
    input:
        store="<results>/<registered>/aligned_pre.ome.zarr/zarr.json",
    output:
        image="<results>/<registered>/exports/aligned_pre.{form}",
        digests="<results>/<registered>/details/digests/export_aligned_pre.{form}.sha256",
    log:
        logs="<logs>/<registered>/export_aligned_pre.{form}.log",
        telemetry="<telemetry>/<registered>/export_aligned_pre.{form}.jsonl",
    benchmark:
        "<benchmarks>/<registered>/export_aligned_pre.{form}.tsv"


use rule export_difference as export_raw with:
    input:
        store="<results>/<ingested>/{role}.ome.zarr/zarr.json",
    output:
        image="<results>/<ingested>/exports/{role}.{form}",
        digests="<results>/<ingested>/details/digests/export_{role}.{form}.sha256",
    log:
        logs="<logs>/<ingested>/export_{role}.{form}.log",
        telemetry="<telemetry>/<ingested>/export_{role}.{form}.jsonl",
    benchmark:
        "<benchmarks>/<ingested>/export_{role}.{form}.tsv"
