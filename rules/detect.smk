"""Detect: candidates on the difference of the default method, with their false-discovery rate."""

detect_inputs = dict(
    post=out.ingested(store("post")),
    pre=out.ingested(store("pre")),
    aligned=out.registered(store("aligned_pre")),
    transform=out.registered("transform.json"),
    displacement=out.registered("displacement.npz"),
    scale=out.subtracted("scale.json"),
    gain_map=out.subtracted("gain_map.npz"),
    difference=of_main_method(store("difference/{method}")),
    regions=of_batch(job_params.drawn_regions),
)


rule detect:
    input:
        **detect_inputs,
        blocks=of_main_method("difference/{method}.blocks.npz"),
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
        version=11,
        settings=of_batch(job_params.detect_settings),
        controls=of_batch(job_params.control_samples),
        is_control=of_batch(job_params.is_control),
    script:
        "../scripts/detect.py"
