"""Slides of many channels: maps of cycles, gains of all markers, one corrected image in one frame.

Nothing of a slide is copied: images are read in place.
"""

from unglow.workflow.planned_jobs import corrected_files

corrected = {form: out.slide(name) for form, name in corrected_files(batch).items()}


rule slide_register:
    input:
        images=of_batch(job_params.slide_images),
    output:
        **outputs("slide_register"),
    log:
        **logs("slide_register"),
    benchmark:
        record("benchmarks", "slide_register")
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
        version=8,
        slide=of_batch(job_params.registered_slide),
        settings=of_batch(job_params.slide_register_settings),
        spoilt=of_batch(job_params.finds_spoilt),
    script:
        "../scripts/slide_register.py"


rule slide_scale:
    input:
        images=of_batch(job_params.slide_images),
        transforms=of_batch(job_params.slide_maps, name="transform.json"),
        displacements=of_batch(job_params.slide_maps, name="displacement.npz"),
        spoilt=of_batch(job_params.slide_maps, name="spoilt.npz"),
    output:
        **outputs("slide_scale"),
    log:
        **logs("slide_scale"),
    benchmark:
        record("benchmarks", "slide_scale")
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
        version=10,
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
        displacements=of_batch(job_params.slide_maps, name="displacement.npz"),
        slide=out.slide("slide.json"),
        scale=out.slide("scale.json"),
        gain_maps=out.slide("gain_maps.npz"),
    output:
        **{
            name: temp(out.part(file))
            for name, file in STAGES["slide_part"].files.items()
        },
    log:
        **logs("slide_part"),
    benchmark:
        record("benchmarks", "slide_part")
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
        displacements=of_batch(job_params.slide_maps, name="displacement.npz"),
        slide=out.slide("slide.json"),
        scale=out.slide("scale.json"),
        gain_maps=out.slide("gain_maps.npz"),
        parts=of_batch(job_params.slide_parts),
    output:
        **corrected,
        **outputs("slide_subtract"),
    log:
        **logs("slide_subtract"),
    benchmark:
        record("benchmarks", "slide_subtract")
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
        version=4,
        slide=of_batch(job_params.slide_record),
        own_cells=of_batch(job_params.slide_own_cells),
        dtype=batch.settings.multiplexed.dtype,
        rounding=batch.settings.multiplexed.rounding,
    script:
        "../scripts/slide_subtract.py"


rule slide_figures:
    input:
        transforms=of_batch(job_params.slide_maps, name="transform.json"),
        blocks=of_batch(job_params.slide_maps, name="blocks.csv"),
        slide=out.slide("slide.json"),
        scale=out.slide("scale.json"),
        statistics=out.slide("statistics.npz"),
        subtraction=out.slide("subtraction.json"),
        residues=out.slide("residues.npz"),
        overviews=out.slide("overviews.npz"),
    output:
        **outputs("slide_figures"),
        figures=directory(out.slide("figures")),
    log:
        **logs("slide_figures"),
    benchmark:
        record("benchmarks", "slide_figures")
    wildcard_constraints:
        sample=one_of(batch.slides),
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["slide_figures"]
    resources:
        **resources("slide_figures"),
    params:
        memory=memory("slide_figures"),
        version=3,
    script:
        "../scripts/slide_figures.py"
