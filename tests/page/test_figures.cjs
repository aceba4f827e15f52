// Figures of pages in Node.js: drawings of generated scenarios with known numbers.
// Usage: node test_figures.cjs DLSIM, in a folder for its files
const assert = require("assert");
const fs = require("fs");
const { execFileSync } = require("child_process");
const { runPage } = require("./dom.cjs");

if (!String.prototype.at) process.exit(77);
const dlsim = process.argv[2];

// A sample takes 0.2 ms and nothing else; n workers share the samples.
const costs = "[costs]\nschema = 1\nworkload = made\nparameter_bytes = 1000\nstate_bytes = 0\n" +
    "[op c.forward]\nfixed_ns = 0\nper_sample_ns = 100000\n[op c.backward]\nfixed_ns = 0\nper_sample_ns = 100000\n" +
    "[copy]\nlatency_ns = 100\nbandwidth_bytes_per_s = 1e9\n[update]\nlatency_ns = 0\nread_bytes_per_s = 1e12\nwrite_bytes_per_s = 1e12\n" +
    "[average]\nlatency_ns = 100\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n" +
    "[sync]\nbarrier_ns = 0\nlock_ns = 0\nwakeup_ns = 0\nslice_ns = 3e6\n[memory]\ntotal_bytes_per_s = 1e12\n[sharing]\ncopies_2 = 1\n";

function page(name, ...lines) {
    fs.writeFileSync(name + ".ini", ["[scenario]", "steps = 10", "[workload]", "costs = made.ini", "batch = 80", "[machine]", "cores = workers", ...lines, ""].join("\n"));
    return draw(name);
}
function draw(name) {
    execFileSync(dlsim, [name + ".ini", "--html", name + ".html", "-o", name + ".csv", "--quiet", "--long"], { env: { ...process.env, PATH: "/" } });
    const html = fs.readFileSync(name + ".html", "utf8");
    assert.ok(!/<script>[^<]*alert/.test(html));
    return runPage(html.replace(/<script type="text.plain"[^]*?<.script>\n<script>[^]*?<.script>/, "")); // without the simulator
}
const figures = drawn => drawn.byId.figures.children;
const captionOf = figure => figure.find(child => child.tag === "figcaption").textContent;
const figureOf = (drawn, words) => figures(drawn).find(figure => captionOf(figure).includes(words));
const texts = figure => figure.all(child => child.tag === "text").map(child => child.textContent);
// Ends of the segments of each line by colour, [[x, y], ...].
function linesIn(svg) {
    const lines = new Map();
    for (const path of svg.all(child => child.tag === "path" && child.attributes.fill === "none" && child.attributes["stroke-width"] === "2")) {
        const ends = path.attributes.d.slice(1).split("L").map(point => point.split(" ").map(Number));
        lines.set(path.attributes.stroke, [...(lines.get(path.attributes.stroke) || []), ends]);
    }
    return lines;
}

fs.writeFileSync("made.ini", costs);
const hostile = "a<script>alert(1)</script>\" onclick=\"b|#c & 'd', `id` $(id)";

// Measured points are drawn on top: filled, hollow if fitted, a cross if contradictory. 10000
// samples/s is 2 workers.
fs.writeFileSync("measured.csv", "workers,batch,sync,throughput_per_s,source,use,note\n1,80,none,5000,x,fitted,\n2,80,none,10000,x,,\n" +
    "4,80,none,18182,x,unseen,\n8,80,none,40012,x,contradiction,\"two\nlines\"\n");
const measured = page("points", "workers = 1, 2, 4, 8", "[sync]", "mode = none", "[measured]", "file = measured.csv");
const speedup = figureOf(measured, "proportional");
assert.match(captionOf(speedup), /Measured points on top, hollow where costs were fitted to them, crosses where they contradict/);
assert.ok(texts(speedup).includes("speedup over one without exchange")); // as on the terminal; with layouts that is no worker
const marks = speedup.all(child => child.tag === "circle" && child.attributes.r === "4");
assert.deepEqual(marks.map(mark => mark.attributes.fill === "var(--paper)"), [true, false, false]);
assert.equal(speedup.all(child => child.tag === "path" && /^M[-.\d ]+l8 8m0 -8l-8 8$/.test(child.attributes.d)).length, 1);
const [line] = linesIn(speedup).values();
assert.equal(line.length, 3);
const ideal = speedup.find(child => child.attributes["stroke-dasharray"] === "2 3").attributes.d.slice(1).split("L").map(point => point.split(" ").map(Number));
line.forEach(([from, to], i) => assert.deepEqual([from, to].map(([x, y]) => [x, Math.round(y)]), [ideal[i], ideal[i + 1]].map(([x, y]) => [x, Math.round(y)])));
const near = mark => Math.abs(Number(mark.attributes.cy) - line[0][1][1]) < 0.06 && Number(mark.attributes.cx).toFixed(1) === line[0][1][0].toFixed(1);
assert.ok(near(marks[1]), "the measured point of 2 workers is not on the line");
// The file to save is the results file.
measured.blobs[0].text().then(text => assert.equal(text, fs.readFileSync("points.csv", "utf8"))).catch(error => { console.error(error); process.exit(1); });

// Two stragglers are two lines with labels at their ends; each passes a number of workers once.
const swept = page("swept", "workers = 1, 2, 4", "[sync]", "mode = none", "[noise]", "slow = 0:2 | 0:3");
const two = figureOf(swept, "proportional"), lines = linesIn(two);
assert.equal(lines.size, 2);
for (const pieces of lines.values()) pieces.forEach(([from, to], i) => { assert.ok(from[0] < to[0]); if (i > 0) assert.deepEqual(from, pieces[i - 1][1]); });
for (const text of ["slow 0:2", "slow 0:3"]) assert.ok(texts(two).includes(text), text + " is not among " + texts(two));

// Long labels that end differently are drawn to their ends, in several rows.
const long = figureOf(page("long", "workers = 4, 8", "[sync]", "mode = none", "[noise]", "slow = 0:1.25, 1:1.25, 2:1.25, 3:2 | 0:1.25, 1:1.25, 2:1.25, 3:3"), "proportional");
for (const end of ["3:2", "3:3"]) assert.equal(texts(long).filter(text => text.endsWith(end)).length, 1, end + " is not among " + texts(long));
const rowsAt = long.all(child => child.tag === "text" && /:1.25|3:[23]/.test(child.textContent)).map(child => Number(child.attributes.y)).sort((a, b) => a - b);
rowsAt.forEach((y, i) => assert.ok(y >= 24 && y <= 300 && (i === 0 || y - rowsAt[i - 1] >= 13), "rows overlap: " + rowsAt));

// A step of compute only: its bars have one part, with share 1.
const parts = figureOf(swept, "Where a step's time goes");
assert.ok(texts(parts).includes("1 worker, slow 0:2"), texts(parts).join("; "));
// The time line: one lane per worker, with each step above its compute.
assert.match(swept.byId.timeline.find(child => child.tag === "canvas").attributes["aria-label"], /^Time line of [124] lanes/);

// Memory by kind of two layers that keep 1 and 3 MB per sample, with 4 samples: parameters and
// gradients 0.8 MB each, optimizer 1.6 MB, workspace 2 MB. Gradients are made in the backward pass.
// The peak is when both layers are kept, and b has its gradients: 2.8 + 2 + 4 x 4 MB = 20.8 MB of 40 GB.
fs.writeFileSync("layers.ini", "[costs]\nschema = 1\nworkload = layers\nparameter_bytes = 0.8e6\nstate_bytes = 1.6e6\n" +
    ["a.forward", "a.backward", "b.forward", "b.backward"].map(op => `[op ${op}]\nfixed_ns = 0\nper_sample_ns = 100000\n`).join("") +
    "[layer a]\nparameter_bytes = 0.4e6\nactivation_bytes_per_sample = 1e6\noutput_bytes_per_sample = 1000\n[layer b]\nparameter_bytes = 0.4e6\nactivation_bytes_per_sample = 3e6\noutput_bytes_per_sample = 1000\n" +
    "[dispatch]\nserial_ns = 0\nper_worker_ns = 0\n[input]\nbytes_per_sample = 100\n[gpu_memory]\nworkspace_bytes = 2e6\nactivation_bytes_per_sample = 4e6\n");
execFileSync(dlsim, ["--costs", "layers.ini", "--machine", "2xa100", "--workers", "2", "--batch-per-worker", "4", "--mode", "allreduce", "--html", "layers.html", "-o", "layers.csv", "--quiet"]);
const layers = runPage(fs.readFileSync("layers.html", "utf8").replace(/<script type="text.plain"[^]*?<.script>\n<script>[^]*?<.script>/, "")).byId.timeline;
const memory = layers.children.find(figure => /^Memory of a GPU over a step/.test(captionOf(figure)));
assert.match(captionOf(memory), /by kind: 0.0208 GB at most, in the backward pass of b, of 42.95 GB/);
assert.deepEqual(texts(memory).filter(text => /^[fb]$/.test(text)), ["f", "b"]);
assert.match(memory.find(child => child.tag === "svg").attributes["aria-label"], /parameters 0.0008 GB, gradients 0.0004 GB, optimizer 0.0016 GB, workspace 0.002 GB, activations 0.016 GB/);
const areas = memory.all(child => child.tag === "path" && /Z$/.test(child.attributes.d));
// The top of the stack at the four times: 8.4, 20.4, 20.8 and 9.2 MB.
const top = areas.at(-1).attributes.d.match(/[ML][-.\d]+ [-.\d]+/g).slice(0, 8).map(point => Number(point.split(" ")[1]));
assert.ok(areas.length === 5 && top[0] >= top[7] && top[7] > top[2] && top[2] >= top[4], top.join(" "));
assert.ok(memory.find(child => child.attributes.class === "capacity") && memory.find(child => child.attributes.class === "peak"));

// 64 workers of 2 stages with 32 micro-batches have more passes per step than fit on a page: only
// some are drawn.
execFileSync(dlsim, ["--costs", "layers.ini", "--machine", "16x8xa100@400ib", "--layout", "pp=2", "--workers", "64", "--batch-per-worker", "32", "--micro-batches", "32",
    "--mode", "none", "--steps", "4", "--html", "crowd.html", "-o", "crowd.csv", "--quiet"]);
const crowd = runPage(fs.readFileSync("crowd.html", "utf8").replace(/<script type="text.plain"[^]*?<.script>\n<script>[^]*?<.script>/, "")).byId.timeline;
assert.match(captionOf(crowd.children[0]), /none \(first \d+ of 4 steps\) \(first \d+ of 64 workers\)/);

// Rows of two machines are never joined by a line, and are named by their machines; workers that wait
// for one another have one lane.
fs.writeFileSync("machines.ini", ["[scenario]", "steps = 4", "[workload]", "model = resnet50", "batch_per_worker = 32", "[machine]", "file = p5.48xlarge, 2xp4de.24xlarge",
    "workers = all", "[sync]", "mode = allreduce", ""].join("\n"));
const apart = draw("machines"), machineNames = ["p5.48xlarge", "2xp4de.24xlarge"];
assert.equal(figureOf(apart, "proportional"), undefined);
for (const words of ["Where a step's time goes", "Price against time"])
    for (const machine of machineNames) assert.ok(texts(figureOf(apart, words)).includes(machine), machine + " is not among " + texts(figureOf(apart, words)));
execFileSync(dlsim, ["--workload", "resnet50", "--machine", "2x8xa100@400ib", "--workers", "16", "--batch-per-worker", "32", "--steps", "4", "--html", "equal.html", "-o", "equal.csv", "--quiet"]);
const equal = runPage(fs.readFileSync("equal.html", "utf8").replace(/<script type="text.plain"[^]*?<.script>\n<script>[^]*?<.script>/, "")).byId.timeline;
assert.match(equal.find(child => child.tag === "canvas").attributes["aria-label"], /^Time line of [2-4] lanes/);
assert.match(captionOf(equal.children[0]), /; equal lanes are drawn once$/);

// Memory by kind: 124,439,808 parameters of 4 bytes, gradients of the same size, twice that for
// Adam; the rest depends on the batch. The stroke is the capacity, 24 GiB, which the second point
// exceeds; the third point's bar ends at twice the capacity.
fs.writeFileSync("memory.ini", ["[scenario]", "steps = 4", "[workload]", "model = gpt2", "arithmetic = fp32", "batch = 2, 64, 512", "[machine]", "file = 2xrtx3090",
    "workers = 2", "[sync]", "mode = allreduce", ""].join("\n"));
const needs = figureOf(draw("memory"), "Memory of the fullest GPU by kind").find(child => child.tag === "svg");
const told = needs.attributes["aria-label"].split("; ");
assert.equal(told.length, 3);
for (const text of told) assert.match(text, /parameters 0.4978 GB, gradients 0.4978 GB, optimizer 0.9955 GB, activations .* GB, logits .* GB, workspace 1 GB, reserve .* GB/);
const bars = needs.all(child => child.tag === "rect" && child.attributes.height === "15"), strokes = needs.all(child => child.tag === "path");
const ends = [0, 1, 2].map(i => Math.max(...bars.filter(bar => Number(bar.attributes.y) === Number(bars[0].attributes.y) + 20 * i).map(bar => Number(bar.attributes.x) + Number(bar.attributes.width))));
const [from, capacity] = [Number(bars[0].attributes.x), Number(/^M([0-9.]+)/.exec(strokes[0].attributes.d)[1])];
assert.ok(ends[0] < capacity && ends[1] > capacity);
assert.ok(Math.abs(ends[2] - from - 2 * (capacity - from)) < 0.1);
assert.ok(Math.abs(Number(bars[0].attributes.width) / (capacity - from) - 497759232 / (24 * 2 ** 30)) < 0.001);

// A sweep of 1,008 points: panels of at most seven lines, bars of at most 24 rows, no NaN.
const many = page("many", "workers = 1, 2, 4, 5, 8, 10, 16, 20", "[sync]", "mode = average", "interval = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14",
    "[noise]", "slow = 0:1.1 | 0:1.2 | 0:1.3 | 0:1.4 | 0:1.5 | 0:1.6 | 0:1.7 | 0:1.8 | 0:1.9");
assert.equal(fs.readFileSync("many.csv", "utf8").split("\n").filter(text => /^\d/.test(text)).length, 1008);
for (const figure of figures(many)) {
    for (const svg of figure.all(child => child.tag === "svg")) {
        assert.ok(linesIn(svg).size <= 7, captionOf(figure));
        assert.ok(svg.all(child => child.tag === "rect").length <= 24 * 6 + 6);
        for (const child of svg.all(() => true)) for (const value of Object.values(child.attributes)) assert.ok(!/NaN|undefined|Infinity/.test(value), captionOf(figure) + ": " + value);
    }
}
const panels = figureOf(many, "proportional");
assert.ok(panels.all(child => child.tag === "svg").length > 1);
assert.match(captionOf(panels), /\d+ more lines are in the table/);

// The title of a panel has what its lines share; each panel has the fastest line of each mode.
const titleOf = svg => texts(svg).find(text => text.endsWith(": speedup over one without exchange"));
const shared = figureOf(page("shared", "workers = 1, 2", "[sync]", "mode = average, allreduce", "interval = 1, 2, 3, 4, 5, 6, 7, 8", "[noise]", "slow = 0:1.1 | 0:1.5"), "proportional");
for (const svg of shared.all(child => child.tag === "svg")) {
    assert.match(titleOf(svg), /^(interval \d, average|no interval, allreduce): /);
    for (const text of ["slow 0:1.1", "slow 0:1.5"]) assert.ok(texts(svg).includes(text), text + " is not among " + texts(svg));
}
assert.match(captionOf(shared), /^Predicted lines; the dotted/); // without noise there is no interval
const modes = figureOf(page("modes", "workers = 1, 2", "[sync]", "mode = average, allreduce, async", "interval = 1, 2, 3, 4, 5, 6, 7",
    "[noise]", "slow = 0:1.1 | 0:1.2 | 0:1.3 | 0:1.4 | 0:1.5 | 0:1.6 | 0:1.7 | 0:1.8 | 0:1.9 | 0:2"), "proportional");
for (const svg of modes.all(child => child.tag === "svg")) {
    assert.match(titleOf(svg), /^slow 0:[\d.]+: /);
    assert.equal(linesIn(svg).size, 7);
    for (const mode of ["allreduce", "async"]) assert.ok(texts(svg).includes(mode), mode + " is not among " + texts(svg));
}

// Staleness by worker of the fastest asynchronous point: means and quantiles are those of dlsim's own columns.
const stale = figureOf(page("stale", "workers = 2, 4", "[sync]", "mode = async", "[noise]", "slow = 0:3"), "Staleness by worker (4 workers, batch 80, async)");
execFileSync(dlsim, ["stale.ini", "--workers", "4", "--set", "scenario.per_worker=yes", "-o", "each.csv", "--quiet"]);
const [head, values] = fs.readFileSync("each.csv", "utf8").split("\n").filter(text => !text.startsWith("#")).map(text => text.split(","));
const means = values[head.indexOf("staleness_mean_by_worker")].split(";").map(Number);
const barsOf = stale.find(child => child.tag === "svg").attributes["aria-label"].split("; ");
assert.deepEqual(barsOf.map(text => /^(worker \d): mean ([\d.]+), 90 % \d+, largest \d+ updates$/.exec(text).slice(1)), means.map((mean, i) => ["worker " + i, String(Number(mean.toPrecision(4)))]));
assert.ok(means[0] > 1.5 * means[1], "the slow worker is not the stalest: " + means);
assert.equal(figureOf(page("fresh", "workers = 2, 4", "[sync]", "mode = allreduce"), "Staleness by worker"), undefined);

// Names are shown as plain text, and failed rows have no point.
fs.writeFileSync("hostile.csv", `workers,batch,sync,throughput_per_s,source,use,note\n1,80,none,5000,"${hostile.replaceAll('"', '""')}",fitted,\n`);
const named = page("named", "workers = 1, 2", "[sync]", "mode = none", "[measured]", "file = hostile.csv");
assert.ok(figures(named).length >= 2);

// The index: errors by group and over the number of workers.
fs.writeFileSync("list.csv", "group,title,file\n<b>,t,points.csv\n");
execFileSync(dlsim, ["--index", "list.csv", "--html", "index.html", "-o", "rows.csv"]);
const index = runPage(fs.readFileSync("index.html", "utf8"));
assert.equal(figures(index).length, 2);
const errors = figures(index)[0], spots = errors.all(child => child.tag === "circle");
assert.equal(spots.length, 3);
console.log("all figures hold");
