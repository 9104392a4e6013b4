"""Detect: candidates on the difference of the default method, with their false-discovery rate."""

detect_inputs = dict(
    post=out.ingested(store("post")),
    pre=out.ingested(store("pre")),
    aligned=out.registered(store("aligned_pre")),
    transform=out.registered("transform.json"),
    displacement=out.registered("details/displacement.npz"),
    scale=out.subtracted("scale.json"),
    gain_map=out.subtracted("details/gain_map.npz"),
    difference=out.subtracted(store("difference")),
    regions=of_batch(job_params.drawn_regions),
)


rule detect:
    input:
        **detect_inputs,
        blocks=out.subtracted("details/difference.blocks.npz"),
        controls=of_batch(job_params.control_search_counts),
    output:
        **outputs("detect"),
    log:
        **logs("detect"),
    benchmark:
        record("benchmarks", "detect")
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["detect"]
    resources:
        **resources("detect"),
    params:
        memory=memory("detect"),
        version=10,
        settings=of_batch(job_params.detect_settings),
        controls=of_batch(job_params.control_samples),
        is_control=of_batch(job_params.is_control),
    script:
        "../scripts/detect.py"
