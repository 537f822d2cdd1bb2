const get = async (path) => {
  const answer = await fetch(path, {cache: "no-store"});
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
};
const put = (id, value) => { document.getElementById(id).textContent = value; };
const fill = (id, rows, empty) => {
  const body = document.getElementById(id);
  body.replaceChildren(...(rows.length ? rows : [[empty]]).map((cells) => {
    const row = document.createElement("tr");
    // As text, never as HTML: names are whatever a client sent.
    row.append(...cells.map((cell) => {
      const td = document.createElement("td");
      td.textContent = cell ?? "";
      return td;
    }));
    return row;
  }));
};
const time = (moment) => moment ? new Date(moment).toLocaleTimeString() : "";
const watch = async (look) => {
  for (;;) {
    try { await look(); put("state", "live"); document.getElementById("state").className = ""; }
    catch (error) {
      put("state", "no answer: what is shown is the last that was heard");
      document.getElementById("state").className = "bad";
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
};
