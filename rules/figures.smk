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
        registration=figure(
            "registered", "registration", "Registration", "overlay before and after"
        ),
        residuals=figure("registered", "residuals", "Registration", "residual vectors"),
        map_error=figure("registered", "map_error", "Registration", "map and its error"),
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
        memory=memory("figures_registration"),
        version=6,
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
        joint_histogram=figure(
            "detected", "joint_histogram", "Scale", "post against pre"
        ),
        excess_histogram=figure(
            "detected", "excess_histogram", "Scale", "excess of post over pre"
        ),
        histograms=figure("detected", "histograms", "Scale", "grey levels"),
        ratio_histogram=figure(
            "detected", "ratio_histogram", "Scale", "ratio of post to pre"
        ),
        difference=figure("detected", "difference", "Difference", "difference"),
        difference_histogram=figure(
            "detected", "difference_histogram", "Difference", "histogram"
        ),
        methods=figure(
            "detected", "methods", "Difference", "scale methods side by side"
        ),
        candidates=figure("detected", "candidates", "Candidates", "candidates"),
        purity=figure("detected", "purity", "Candidates", "purity against threshold"),
        gallery=figure("detected", "gallery", "Candidates", "gallery of candidates"),
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
        memory=memory("figures"),
        version=8,
    script:
        "../scripts/figures.py"
