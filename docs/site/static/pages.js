// A click on a picture shows it: Sphinx makes links to files downloads.
document.addEventListener("DOMContentLoaded", () => {
  for (const picture of document.querySelectorAll("a[download] img")) {
    picture.closest("a").removeAttribute("download");
  }
});
