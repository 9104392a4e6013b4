"""Detect: candidates on the difference of the default method, with their false-discovery rate."""

detect_inputs = dict(
    post=out.pair(store("post")),
    pre=out.pair(store("pre")),
    aligned=out.registered(store("aligned_pre")),
    transform=out.registered("transform.json"),
    displacement=out.registered("displacement.npz"),
    scale=out.subtracted("scale.json"),
    gain_map=out.subtracted("gain_map.npz"),
    difference=of_main_method(store("difference/{method}")),
    regions=of_batch(job_params.drawn_regions),
)


rule detect_band:
    input:
        **detect_inputs,
    output:
        temp(out.band(out.subtracted("candidates.csv"))),
    log:
        out.record("logs", "detect_{band}", "subtracted"),
        telemetry=out.record("telemetry", "detect_{band}", "subtracted"),
    benchmark:
        out.record("benchmarks", "detect_{band}", "subtracted")
    conda:
        "../envs/unglow.yaml"
    threads: 2
    resources:
        mem_mb=mem_mb("detect_band"),
        disk_mb=disk_mb("detect_band"),
        runtime=runtime("detect_band"),
        attempt=this_attempt,
    params:
        version=4,
        settings=of_batch(job_params.detect_settings),
    script:
        "../scripts/detect.py"


use rule detect_band as detect with:
    input:
        **detect_inputs,
        controls=of_batch(job_params.control_search_counts),
        bands=bands_of("detect"),
    output:
        table=out.subtracted("candidates.csv"),
        geojson=out.subtracted("candidates.geojson"),
        report=out.subtracted("detection.json"),
        search_counts=out.subtracted("search.npz"),
        digests=out.digests("detect", "subtracted"),
    log:
        out.record("logs", "detect", "subtracted"),
        telemetry=out.record("telemetry", "detect", "subtracted"),
    benchmark:
        out.record("benchmarks", "detect", "subtracted")
    group:
        pair_group
    resources:
        mem_mb=mem_mb("detect"),
        disk_mb=disk_mb("detect"),
        runtime=runtime("detect"),
        attempt=this_attempt,
    params:
        controls=of_batch(job_params.control_samples),
        is_control=of_batch(job_params.is_control),
