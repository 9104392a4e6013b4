"""Figures: for judging the results, drawn from overviews and small files."""

# Only where the variants of a sweep share a registration; else they are drawn with the others.
if figures_of("figures_registration", out):

    rule figures_registration:
        input:
            post=out.ingested(store("post")),
            pre=out.ingested(store("pre")),
            aligned=out.registered(store("aligned_pre")),
            transform=out.registered("transform.json"),
            displacement=out.registered("displacement.npz"),
            blocks=out.registered("blocks.csv"),
        output:
            **figures("figures_registration"),
        log:
            **logs("figures_registration"),
        benchmark:
            record("benchmarks", "figures_registration")
        group:
            figures_group
        conda:
            "../envs/unglow.yaml"
        threads: threads_of["figures_registration"]
        resources:
            **resources("figures_registration"),
        params:
            memory=memory("figures_registration"),
            version=12,
        script:
            "../scripts/figures.py"


rule figures:
    input:
        post=out.ingested(store("post")),
        pre=out.ingested(store("pre")),
        aligned=out.registered(store("aligned_pre")),
        transform=out.registered("transform.json"),
        displacement=out.registered("displacement.npz"),
        blocks=out.registered("blocks.csv"),
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
        **figures("figures"),
    log:
        **logs("figures"),
    benchmark:
        record("benchmarks", "figures")
    group:
        figures_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["figures"]
    resources:
        **resources("figures"),
    params:
        memory=memory("figures"),
        version=13,
    script:
        "../scripts/figures.py"
