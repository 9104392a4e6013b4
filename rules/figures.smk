"""Figures: what lets a person believe a result or not, drawn from overviews and small files."""


rule figures_registration:
    input:
        post=out.pair(store("post")),
        pre=out.pair(store("pre")),
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
        version=5,
    script:
        "../scripts/figures_registration.py"


rule figures:
    input:
        post=out.pair(store("post")),
        aligned=out.registered(store("aligned_pre")),
        transform=out.registered("transform.json"),
        statistics=out.registered("statistics.npz"),
        scale=out.subtracted("scale.json"),
        gain_map=out.subtracted("gain_map.npz"),
        difference=of_main_method(store("difference/{method}")),
        histogram=of_main_method("difference/{method}.histogram.npz"),
        table=out.subtracted("candidates.csv"),
        detection=out.subtracted("detection.json"),
        search_counts=out.subtracted("search.npz"),
    output:
        joint_histogram=figure(
            "subtracted", "joint_histogram", "Scale", "post against pre"
        ),
        excess_histogram=figure(
            "subtracted", "excess_histogram", "Scale", "excess of post over pre"
        ),
        histograms=figure("subtracted", "histograms", "Scale", "grey levels"),
        ratio_histogram=figure(
            "subtracted", "ratio_histogram", "Scale", "ratio of post to pre"
        ),
        difference=figure("subtracted", "difference", "Difference", "difference"),
        difference_histogram=figure(
            "subtracted", "difference_histogram", "Difference", "histogram"
        ),
        methods=figure(
            "subtracted", "methods", "Difference", "scale methods side by side"
        ),
        candidates=figure("subtracted", "candidates", "Candidates", "candidates"),
        purity=figure("subtracted", "purity", "Candidates", "purity against threshold"),
        gallery=figure("subtracted", "gallery", "Candidates", "gallery of candidates"),
        digests=out.digests("figures", "subtracted"),
    log:
        out.record("logs", "figures", "subtracted"),
        telemetry=out.record("telemetry", "figures", "subtracted"),
    benchmark:
        out.record("benchmarks", "figures", "subtracted")
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
        version=6,
    script:
        "../scripts/figures.py"
