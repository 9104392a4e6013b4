"""Detect: candidates on the difference of the default method, with their false-discovery rate."""

detect_inputs = dict(
    post="<results>/<ingested>/post.ome.zarr/zarr.json",
    pre="<results>/<ingested>/pre.ome.zarr/zarr.json",
    aligned="<results>/<registered>/aligned_pre.ome.zarr/zarr.json",
    transform="<results>/<registered>/transform.json",
    displacement="<results>/<registered>/details/displacement.npz",
    scale="<results>/<subtracted>/scale.json",
    gain_map="<results>/<subtracted>/details/gain_map.npz",
    difference="<results>/<subtracted>/difference.ome.zarr/zarr.json",
    regions=of_batch(job_params.drawn_regions),
)


rule detect:
    input:
        **detect_inputs,
        blocks="<results>/<subtracted>/details/difference.blocks.npz",
        controls=of_batch(job_params.control_search_counts),
    output:
        table="<results>/<detected>/candidates.csv",
        geojson="<results>/<detected>/candidates.geojson",
        artefacts="<results>/<detected>/artefacts.geojson",
        report="<results>/<detected>/details/detection.json",
        search_counts="<results>/<detected>/details/search.npz",
        digests="<results>/<detected>/details/digests/detect.sha256",
    log:
        logs="<logs>/<detected>/detect.log",
        telemetry="<telemetry>/<detected>/detect.jsonl",
    benchmark:
        "<benchmarks>/<detected>/detect.tsv"
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["detect"]
    resources:
        **resources("detect"),
    params:
        memory=memory("detect"),
        version=version_of["detect"],
        settings=of_batch(job_params.detect_settings),
        controls=of_batch(job_params.control_samples),
        is_control=of_batch(job_params.is_control),
    script:
        "../scripts/detect.py"
