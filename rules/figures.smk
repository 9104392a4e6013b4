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
        registration=report(
            out.registered("figures/registration.png"),
            caption="../report/registration.rst",
            category="Registration",
            subcategory="{sample} {dye}",
            labels=labels("overlay before and after"),
        ),
        residuals=report(
            out.registered("figures/residuals.png"),
            caption="../report/residuals.rst",
            category="Registration",
            subcategory="{sample} {dye}",
            labels=labels("residual vectors"),
        ),
        map_error=report(
            out.registered("figures/map_error.png"),
            caption="../report/map_error.rst",
            category="Registration",
            subcategory="{sample} {dye}",
            labels=labels("map and its error"),
        ),
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
        disk_mb=5,
        runtime=minutes(5),
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
        joint_histogram=report(
            out.subtracted("figures/joint_histogram.png"),
            caption="../report/joint_histogram.rst",
            category="Scale",
            subcategory="{sample} {dye}",
            labels=labels("post against pre"),
        ),
        excess_histogram=report(
            out.subtracted("figures/excess_histogram.png"),
            caption="../report/excess_histogram.rst",
            category="Scale",
            subcategory="{sample} {dye}",
            labels=labels("excess of post over pre"),
        ),
        histograms=report(
            out.subtracted("figures/histograms.png"),
            caption="../report/histograms.rst",
            category="Scale",
            subcategory="{sample} {dye}",
            labels=labels("grey levels"),
        ),
        ratio_histogram=report(
            out.subtracted("figures/ratio_histogram.png"),
            caption="../report/ratio_histogram.rst",
            category="Scale",
            subcategory="{sample} {dye}",
            labels=labels("ratio of post to pre"),
        ),
        difference=report(
            out.subtracted("figures/difference.png"),
            caption="../report/difference.rst",
            category="Difference",
            subcategory="{sample} {dye}",
            labels=labels("difference"),
        ),
        difference_histogram=report(
            out.subtracted("figures/difference_histogram.png"),
            caption="../report/difference_histogram.rst",
            category="Difference",
            subcategory="{sample} {dye}",
            labels=labels("histogram"),
        ),
        methods=report(
            out.subtracted("figures/methods.png"),
            caption="../report/methods.rst",
            category="Difference",
            subcategory="{sample} {dye}",
            labels=labels("scale methods side by side"),
        ),
        candidates=report(
            out.subtracted("figures/candidates.png"),
            caption="../report/candidates.rst",
            category="Candidates",
            subcategory="{sample} {dye}",
            labels=labels("candidates"),
        ),
        purity=report(
            out.subtracted("figures/purity.png"),
            caption="../report/purity.rst",
            category="Candidates",
            subcategory="{sample} {dye}",
            labels=labels("purity against threshold"),
        ),
        gallery=report(
            out.subtracted("figures/gallery.png"),
            caption="../report/gallery.rst",
            category="Candidates",
            subcategory="{sample} {dye}",
            labels=labels("gallery of candidates"),
        ),
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
        disk_mb=10,
        runtime=minutes(5),
        attempt=this_attempt,
    params:
        version=6,
    script:
        "../scripts/figures.py"
