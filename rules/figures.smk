"""Figures: what lets a person believe a result or not, drawn from overviews and small files."""


rule figures_registration:
    input:
        post=out.ingested(store("post")),
        pre=out.ingested(store("pre")),
        aligned=out.registered(store("aligned_pre")),
        transform=out.registered("transform.json"),
        displacement=out.registered("displacement.npz"),
        blocks=out.registered("blocks.csv"),
    output:
        **figures_of("figures_registration", "registered"),
        digests=out.digests("figures_registration", "registered"),
    log:
        out.record("logs", "figures_registration", "registered"),
        telemetry=out.record("telemetry", "figures_registration", "registered"),
    benchmark:
        out.record("benchmarks", "figures_registration", "registered")
    group:
        figures_group
    conda:
        "../envs/unglow.yaml"
    threads: 1
    resources:
        mem_mb=mem_mb("figures_registration"),
        disk_mb=disk_mb("figures_registration"),
        runtime=runtime("figures_registration"),
        attempt=this_attempt,
    params:
        version=7,
    script:
        "../scripts/figures_registration.py"


rule figures:
    input:
        post=out.ingested(store("post")),
        aligned=out.registered(store("aligned_pre")),
        transform=out.registered("transform.json"),
        statistics=out.registered("statistics.npz"),
        scale=out.subtracted("scale.json"),
        gain_map=out.subtracted("gain_map.npz"),
        difference=of_main_method(store("difference/{method}")),
        histogram=of_main_method("difference/{method}.histogram.npz"),
        table=out.detected("candidates.csv"),
        detection=out.detected("detection.json"),
        artefacts=out.detected("artefacts.geojson"),
        search_counts=out.detected("search.npz"),
    output:
        **figures_of("figures", "detected"),
        digests=out.digests("figures", "detected"),
    log:
        out.record("logs", "figures", "detected"),
        telemetry=out.record("telemetry", "figures", "detected"),
    benchmark:
        out.record("benchmarks", "figures", "detected")
    group:
        figures_group
    conda:
        "../envs/unglow.yaml"
    threads: 1
    resources:
        mem_mb=mem_mb("figures"),
        disk_mb=disk_mb("figures"),
        runtime=runtime("figures"),
        attempt=this_attempt,
    params:
        version=9,
    script:
        "../scripts/figures.py"
