"""Slides of many channels: maps of cycles, gains of all markers, one corrected image in one frame.

Nothing of a slide is copied: images are read in place.
"""

from unglow.workflow.planned_jobs import corrected_files

corrected = {
    form: f"<results>/{{sample}}/{name}"
    for form, name in corrected_files(batch).items()
}


rule slide_register:
    input:
        images=of_batch(job_params.slide_images),
    output:
        transform="<results>/{sample}/registration/{cycle}/transform.json",
        displacement="<results>/{sample}/registration/{cycle}/details/displacement.npz",
        blocks="<results>/{sample}/registration/{cycle}/details/blocks.csv",
        spoilt="<results>/{sample}/registration/{cycle}/details/spoilt.npz",
        digests="<results>/{sample}/registration/{cycle}/details/digests/slide_register.sha256",
    log:
        logs="<logs>/{sample}/slide_register_{cycle}.log",
        telemetry="<telemetry>/{sample}/slide_register_{cycle}.jsonl",
    benchmark:
        "<benchmarks>/{sample}/slide_register_{cycle}.tsv"
    wildcard_constraints:
        sample=one_of(batch.slides),
        cycle=r"\d+-\d+",
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["slide_register"]
    resources:
        **resources("slide_register"),
    params:
        memory=memory("slide_register"),
        version=version_of["slide_register"],
        slide=of_batch(job_params.registered_slide),
        settings=of_batch(job_params.slide_register_settings),
        spoilt=of_batch(job_params.finds_spoilt),
    script:
        "../scripts/slide_register.py"


rule slide_scale:
    input:
        images=of_batch(job_params.slide_images),
        transforms=of_batch(job_params.slide_maps, name="transform.json"),
        displacements=of_batch(job_params.slide_maps, name="details/displacement.npz"),
        spoilt=of_batch(job_params.slide_maps, name="details/spoilt.npz"),
    output:
        slide="<results>/{sample}/slide.json",
        scale="<results>/{sample}/scale.json",
        gain_maps="<results>/{sample}/details/gain_maps.npz",
        statistics="<results>/{sample}/details/statistics.npz",
        artefacts="<results>/{sample}/artefacts.geojson",
        trusted="<results>/{sample}/cells_to_trust.geojson",
        digests="<results>/{sample}/details/digests/slide_scale.sha256",
    log:
        logs="<logs>/{sample}/slide_scale.log",
        telemetry="<telemetry>/{sample}/slide_scale.jsonl",
    benchmark:
        "<benchmarks>/{sample}/slide_scale.tsv"
    wildcard_constraints:
        sample=one_of(batch.slides),
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["slide_scale"]
    resources:
        **resources("slide_scale"),
    params:
        memory=memory("slide_scale"),
        at_a_time=at_a_time("slide_scale"),
        version=version_of["slide_scale"],
        slide=of_batch(job_params.slide_record),
        settings=of_batch(job_params.slide_scale_settings),
        max_spoilt=batch.settings.detect.max_spoilt,
        suspect_px=batch.settings.register.suspect_px,
        several=batch.settings.multiplexed.several_backgrounds,
    script:
        "../scripts/slide_scale.py"


rule slide_part:
    input:
        images=of_batch(job_params.slide_images),
        transforms=of_batch(job_params.slide_maps, name="transform.json"),
        displacements=of_batch(job_params.slide_maps, name="details/displacement.npz"),
        slide="<results>/{sample}/slide.json",
        scale="<results>/{sample}/scale.json",
        gain_maps="<results>/{sample}/details/gain_maps.npz",
    output:
        tiles=temp("<results>/{sample}/parts/{part}/tiles"),
        counts=temp("<results>/{sample}/parts/{part}/counts.npz"),
        state=temp("<results>/{sample}/parts/{part}/state.json"),
    log:
        logs="<logs>/{sample}/slide_part_{part}.log",
        telemetry="<telemetry>/{sample}/slide_part_{part}.jsonl",
    benchmark:
        "<benchmarks>/{sample}/slide_part_{part}.tsv"
    wildcard_constraints:
        sample=one_of(batch.slides),
        part=r"\d+",
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["slide_part"]
    resources:
        **resources("slide_part"),
    params:
        memory=memory("slide_part"),
        at_a_time=at_a_time("slide_part"),
        version=3,
        slide=of_batch(job_params.slide_record),
        dtype=batch.settings.multiplexed.dtype,
        rounding=batch.settings.multiplexed.rounding,
    script:
        "../scripts/slide_part.py"


rule slide_subtract:
    input:
        images=of_batch(job_params.slide_images),
        transforms=of_batch(job_params.slide_maps, name="transform.json"),
        displacements=of_batch(job_params.slide_maps, name="details/displacement.npz"),
        slide="<results>/{sample}/slide.json",
        scale="<results>/{sample}/scale.json",
        gain_maps="<results>/{sample}/details/gain_maps.npz",
        parts=of_batch(job_params.slide_parts),
    output:
        **corrected,
        markers="<results>/{sample}/markers_corrected.csv",
        subtraction="<results>/{sample}/details/subtraction.json",
        residues="<results>/{sample}/details/residues.npz",
        overviews="<results>/{sample}/details/overviews.npz",
        digests="<results>/{sample}/details/digests/slide_subtract.sha256",
    log:
        logs="<logs>/{sample}/slide_subtract.log",
        telemetry="<telemetry>/{sample}/slide_subtract.jsonl",
    benchmark:
        "<benchmarks>/{sample}/slide_subtract.tsv"
    wildcard_constraints:
        sample=one_of(batch.slides),
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["slide_subtract"]
    resources:
        **resources("slide_subtract"),
    params:
        memory=memory("slide_subtract"),
        at_a_time=at_a_time("slide_subtract"),
        version=version_of["slide_subtract"],
        slide=of_batch(job_params.slide_record),
        own_cells=of_batch(job_params.slide_own_cells),
        dtype=batch.settings.multiplexed.dtype,
        rounding=batch.settings.multiplexed.rounding,
    script:
        "../scripts/slide_subtract.py"


rule slide_figures:
    input:
        transforms=of_batch(job_params.slide_maps, name="transform.json"),
        blocks=of_batch(job_params.slide_maps, name="details/blocks.csv"),
        slide="<results>/{sample}/slide.json",
        scale="<results>/{sample}/scale.json",
        statistics="<results>/{sample}/details/statistics.npz",
        subtraction="<results>/{sample}/details/subtraction.json",
        residues="<results>/{sample}/details/residues.npz",
        overviews="<results>/{sample}/details/overviews.npz",
    output:
        digests="<results>/{sample}/details/digests/slide_figures.sha256",
        figures=directory("<results>/{sample}/figures"),
    log:
        logs="<logs>/{sample}/slide_figures.log",
        telemetry="<telemetry>/{sample}/slide_figures.jsonl",
    benchmark:
        "<benchmarks>/{sample}/slide_figures.tsv"
    wildcard_constraints:
        sample=one_of(batch.slides),
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["slide_figures"]
    resources:
        **resources("slide_figures"),
    params:
        memory=memory("slide_figures"),
        version=version_of["slide_figures"],
    script:
        "../scripts/slide_figures.py"
