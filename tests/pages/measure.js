// Says what does not fit in the page that is shown, a line each.
() => {
  const WIDE = 1280;
  const found = [];
  const root = document.documentElement;
  const main = document.querySelector("[role=main]") || document.body;

  function scrolls(element) {
    for (let each = element; each && each.tagName !== "BODY"; each = each.parentElement) {
      const style = getComputedStyle(each);
      if (style.overflowX !== "visible" || style.position === "fixed") return true;
    }
    return false;
  }

  function named(element) {
    const text = element.textContent.trim().replace(/\s+/g, " ").slice(0, 60);
    return `<${element.tagName.toLowerCase()}${element.className ? " class=" + element.className : ""}> ${text}`;
  }

  function isCut(element) {
    return element.clientWidth > 0 && element.scrollWidth > element.clientWidth + 1;
  }

  // Folded parts are looked at as well.
  for (const folded of main.querySelectorAll("details")) folded.open = true;
  if (root.scrollWidth > root.clientWidth) {
    found.push(`it scrolls sideways by ${root.scrollWidth - root.clientWidth} px`);
  }
  for (const element of main.querySelectorAll("*")) {
    const box = element.getBoundingClientRect();
    const beyond = Math.round(box.right - root.clientWidth);
    if (box.width && beyond > 1 && !scrolls(element)) found.push(`wider than the page by ${beyond} px: ${named(element)}`);
  }
  for (const element of document.querySelectorAll(".toc-tree a, .sidebar-tree a")) {
    if (isCut(element)) found.push(`a line of the contents is cut: ${named(element)}`);
  }
  for (const table of main.querySelectorAll("table.members, table.autosummary")) {
    const wrapper = table.parentElement;
    if (isCut(wrapper)) found.push(`a table of members is cut: ${named(table)}`);
  }
  for (const heading of main.querySelectorAll("h1, h2, h3")) {
    heading.style.overflowWrap = "normal";
    if (isCut(heading)) found.push(`a word of a heading is broken: ${named(heading)}`);
    heading.style.overflowWrap = "";
  }
  for (const cell of main.querySelectorAll("td")) {
    const width = Math.round(cell.clientWidth);
    if (width && width < 100 && cell.textContent.trim().length > 40) found.push(`a column is crushed to ${width} px: ${named(cell)}`);
  }
  if (root.clientWidth >= WIDE) {
    for (const element of main.querySelectorAll("pre")) {
      if (!isCut(element)) continue;
      const line = element.textContent.split("\n").reduce((a, b) => (b.length > a.length ? b : a));
      found.push(`code is cut, its longest line has ${line.length} columns: ${line.trim()}`);
    }
  }
  return found;
}
