// A live page in Node.js: texts from files are only data in it, and its script, with the simulator
// in the page, shows the program's numbers, and disables the controls if its numbers differ.
// Usage: node test_live.cjs DLSIM, in a folder for its files; exit 77 if a requirement is missing
const assert = require("assert");
const fs = require("fs");
const vm = require("vm");
const { execFileSync, spawnSync } = require("child_process");
const { scriptsOf, runPage } = require("./dom.cjs");

if (!String.prototype.at) process.exit(77);
const dlsim = process.argv[2];
const nasty = "</script><script>alert(1)</script><!-- <b>\"'&";

// A worker with its own context, which has only the globals of a browser's worker; simulations of
// the workers up to number `hanging` that begin once this is set do not end.
class Worker {
    static hanging = 0;
    static made = 0;
    constructor(blob) {
        this.number = ++Worker.made;
        const post = data => this.ended || this.onmessage({ data });
        this.context = blob.text().then(text => {
            const globals = { TextDecoder, performance, console, setTimeout,
                crypto, importScripts() {}, postMessage: post, location: { href: "" } };
            globals.self = globals;
            vm.runInContext(text, vm.createContext(globals));
            return globals;
        });
    }
    postMessage(data) {
        if (!(data.args && this.number <= Worker.hanging)) this.context.then(globals => globals.onmessage({ data }));
    }
    terminate() {
        assert.equal(this.onmessage, null);
        this.ended = true;
    }
}

// Runs a page's scripts and returns {root, data}; calls change(data) first.
function run(html, change) {
    const { byId } = runPage(html, { change, globals: { Worker, performance, setTimeout, clearTimeout, setInterval, clearInterval } });
    return { root: byId.live, data: JSON.parse(byId["live-data"].textContent) };
}

async function until(what, test) {
    for (let i = 0; i < 1200; i++) {
        if (test()) return;
        await new Promise(wake => setTimeout(wake, 50));
    }
    assert.fail("not within a minute: " + what());
}
const withRole = (root, role) => root.find(child => child.attributes.role === role);
const status = root => withRole(root, "status").textContent;
const control = (root, name) => root.find(child => child.attributes.id === "live-" + name || child.id === "live-" + name);
const number = root => Number(root.find(child => child.tag === "strong")?.textContent.replace(" samples/s", ""));
function set(root, name, value, event) {
    control(root, name).value = value;
    control(root, name).dispatchEvent({ type: event });
}
const ended = root => /^(Simulated in|The simulator (in|does))/.test(status(root)) || /^Checked/.test(control(root, "checked").textContent);
const answerOf = root => root.find(child => child.attributes.class === "answer").textContent;
const throughput = args => JSON.parse(execFileSync(dlsim, [...args, "--json", "-", "--quiet"])).rows.at(-1).throughput_per_s;

async function main() {
    fs.writeFileSync("costs.ini", "[costs]\nschema = 1\nparameter_bytes = 4000000\nworkload = " + nasty + "\n" +
        "[op a.forward]\nfixed_ns = 100000\nper_sample_ns = 210000\n[op a.update]\nfixed_ns = 300000\nper_sample_ns = 0\n" +
        "[copy]\nlatency_ns = 200\nbandwidth_bytes_per_s = 8e9\n[average]\nlatency_ns = 500\nread_bytes_per_s = 1.2e10\nwrite_bytes_per_s = 1.2e10\n" +
        "[update]\nlatency_ns = 500\nread_bytes_per_s = 1.2e10\nwrite_bytes_per_s = 4e9\n[memory]\ntotal_bytes_per_s = 2e10\n" +
        "[sync]\nbarrier_ns = 300\nwakeup_ns = 30000\nlock_ns = 200\nslice_ns = 3e6\n[sharing]\ncopies_2 = 1.07\n");
    fs.writeFileSync("scenario.ini", `; ${nasty}\n[scenario]\nname = ${nasty}\nsteps = 50\n[machine]\ncores = 16\nworkers = 1, 4\n` +
        "[workload]\ncosts = costs.ini\nbatch = 64\n[sync]\nmode = allreduce, async\n");
    const made = spawnSync(dlsim, ["scenario.ini", "--html", "page.html", "--quiet"], { encoding: "utf8" });
    assert.equal(made.status, 0, made.stderr);
    const html = fs.readFileSync("page.html", "utf8"), scripts = scriptsOf(html);
    if (html.includes("This page has no controls")) {
        console.log(/This page has no controls[^<]*/.exec(html)[0]);
        process.exit(77);
    }

    // Exactly these elements: figures, the simulator in three parts, its script, data of figures,
    // their call, tables.
    assert.deepEqual(scripts.map(script => script.id || script.type), [undefined, "live-data", "live-glue", "live-core", undefined, "figures-data",
        "timeline-data", undefined, undefined]);
    assert.equal(html.match(/<script/gi).length, 9);
    assert.ok(!html.includes("<script>alert"), "the name of a scenario is code");
    const data = JSON.parse(scripts[1].text);
    assert.equal(data.text, fs.readFileSync("scenario.ini", "utf8"));
    assert.equal(data.files["costs.ini"], fs.readFileSync("costs.ini", "utf8"));

    // Numbers of another version disable the controls.
    const other = run(html, changed => { changed.points[1].throughput_per_s *= 1 + 1e-6; });
    await until(() => status(other.root), () => ended(other.root));
    assert.match(status(other.root), /another version .* controls are off: point 2 is/);
    assert.ok(other.root.find(child => child.tag === "fieldset").disabled);

    // Controls can be used before the comparison with the results has ended.
    const page = run(html);
    await until(() => "the controls", () => !page.root.find(child => child.tag === "fieldset").disabled);
    assert.ok(!ended(page.root));
    await until(() => status(page.root), () => ended(page.root));
    if (/another version/.test(status(page.root))) {
        console.log(status(page.root) + " ./check --page renews it.");
        return;
    }
    assert.equal(control(page.root, "checked").textContent, "Checked: the simulator in this page gives the same throughput for all 4 points of the results.");
    assert.match(answerOf(page.root), /^[0-9.]+ samples.s, speedup [0-9.]+, with 4 workers, allreduce\. A step takes /);
    set(page.root, "mode", "average", "change");
    set(page.root, "interval", "8", "input");
    set(page.root, "workers", "8", "input");
    await until(() => status(page.root), () => /^Simulated/.test(status(page.root)));
    const expected = throughput(["scenario.ini", "--workers", "8", "--mode", "average", "--interval", "8"]);
    assert.equal(number(page.root), Number(expected.toPrecision(4)));
    assert.equal(control(page.root, "command").textContent, "dlsim scenario.ini --workers 1,2,4,8 --batch 64 --mode average --interval 8");
    // The staleness of each of the most workers.
    set(page.root, "mode", "async", "change");
    await until(() => status(page.root), () => /^Simulated/.test(status(page.root)) && /--mode async/.test(control(page.root, "command").textContent));
    await until("staleness by worker", () => page.root.all(child => child.tag === "figcaption").some(child => /^Staleness by worker .8 workers, batch 64, async/.test(child.textContent)));
    assert.ok(page.root.all(child => child.tag === "text").some(child => child.textContent === "worker 7"));
    set(page.root, "mode", "average", "change");
    await until(() => status(page.root), () => /^Simulated/.test(status(page.root)) && number(page.root) === Number(expected.toPrecision(4)));
    // The live page draws figures, and on demand a time line: 8 workers with at most three lanes
    // each.
    assert.ok(page.root.all(child => child.tag === "figure").length >= 2);
    assert.equal(page.root.find(child => child.tag === "canvas"), null);
    control(page.root, "line").dispatchEvent({ type: "click" });
    await until("the time line", () => page.root.find(child => child.tag === "canvas"));
    assert.match(page.root.find(child => child.tag === "canvas").attributes["aria-label"], /^Time line of 8 lanes/);

    // A simulation can be stopped, and a new setting replaces it.
    assert.ok(control(page.root, "stop").hidden);
    await until(() => status(page.root), () => status(page.root) === "");
    const before = Worker.made;
    Worker.hanging = before + 1;
    set(page.root, "interval", "500", "input");
    await until(() => status(page.root), () => /^Simulating/.test(status(page.root)));
    assert.ok(!control(page.root, "stop").hidden);
    await until(() => status(page.root), () => status(page.root) === "Simulating for 1 s ...");
    control(page.root, "stop").dispatchEvent({ type: "click" });
    await until(() => status(page.root), () => /^Stopped/.test(status(page.root)));
    assert.ok(control(page.root, "stop").hidden);
    assert.equal(number(page.root), Number(expected.toPrecision(4)), "the earlier answer is gone");
    set(page.root, "interval", "400", "input");
    await until(() => status(page.root), () => /^Simulating/.test(status(page.root)));
    set(page.root, "interval", "16", "input");
    await until("the new worker", () => Worker.made === before + 2);
    await until(() => status(page.root), () => /^Simulated/.test(status(page.root)));
    assert.equal(number(page.root), Number(throughput(["scenario.ini", "--workers", "8", "--mode", "average", "--interval", "16"]).toPrecision(4)));

    set(page.root, "workers", "0", "input");
    set(page.root, "batch", "0", "input");
    await until(() => status(page.root), () => /batch/.test(status(page.root)));
    assert.ok(Number.isNaN(number(page.root)), "the answer of other settings is still there");
    assert.equal(page.root.find(child => child.tag === "figure"), null);

    // Points of swept keys are told apart.
    fs.writeFileSync("swept.ini", fs.readFileSync("scenario.ini", "utf8") + "[noise]\nslow = 0:2 | 0:3\n");
    execFileSync(dlsim, ["swept.ini", "--html", "swept.html", "--quiet"], { env: { ...process.env, PATH: "/" } });
    const swept = run(fs.readFileSync("swept.html", "utf8"));
    await until(() => status(swept.root), () => ended(swept.root));
    assert.match(answerOf(swept.root), /, slow 0:3\. A step/);
    // The time line is that of the fastest point.
    control(swept.root, "line").dispatchEvent({ type: "click" });
    await until("the time line", () => swept.root.find(child => child.tag === "canvas"));
    assert.match(swept.root.all(child => child.tag === "figcaption").at(-1).textContent, /^4 workers, async, slow 0:3: the first steps/);
    // Points that take long are not compared.
    const long = run(fs.readFileSync("swept.html", "utf8"), changed => changed.points.forEach((point, i) => { point.events = i === 2 ? 1e6 : 1e9; }));
    await until(() => status(long.root), () => ended(long.root));
    assert.match(control(long.root, "checked").textContent, /for 1 of the 8 points of the results/);
    set(swept.root, "workers", "8", "input");
    await until(() => status(swept.root), () => /^Simulated/.test(status(swept.root)));
    const cells = swept.root.all(child => child.tag === "td").map(child => child.textContent);
    for (const value of ["0:2", "0:3"]) assert.equal(cells.filter(cell => cell === value).length, 4, value + " in " + cells);

    // With many points, the cheapest ones are simulated again.
    fs.writeFileSync("many.ini", fs.readFileSync("scenario.ini", "utf8").replace("workers = 1, 4", "workers = 1, 2, 4, 8, 16")
        .replace("batch = 64", "batch = " + [...Array(21).keys()].map(i => 64 + 16 * i).join(", ")));
    execFileSync(dlsim, ["many.ini", "--html", "many.html", "--quiet"], { env: { ...process.env, PATH: "/" } }); // without gnuplot
    const many = run(fs.readFileSync("many.html", "utf8"));
    assert.equal(many.data.points.length, 210);
    await until(() => status(many.root), () => ended(many.root));
    assert.equal(number(many.root), Number(Math.max(...many.data.points.map(point => point.throughput_per_s)).toPrecision(4)));
    assert.match(control(many.root, "checked").textContent, /for 8 of the 210 points of the results, those that take the least time\.$/);
    const manyOther = run(fs.readFileSync("many.html", "utf8"), changed => changed.points.forEach(point => { point.throughput_per_s *= 2; }));
    await until(() => status(manyOther.root), () => ended(manyOther.root));
    assert.match(status(manyOther.root), /controls are off: point \d+ is [0-9.]+ samples.s here, [0-9.]+ in the results/);

    // Generators make the batch, so that there is no control for it.
    fs.copyFileSync(require("path").join(__dirname, "../../scenarios/modes/gpu_agents.ini"), "agents.ini");
    execFileSync(dlsim, ["agents.ini", "--html", "agents.html", "--quiet"]);
    const agents = run(fs.readFileSync("agents.html", "utf8"));
    await until(() => status(agents.root), () => ended(agents.root));
    assert.ok(!control(agents.root, "batch"));
    const first = number(agents.root);
    set(agents.root, "mode", control(agents.root, "mode").value, "change");
    await until(() => status(agents.root), () => /^Simulated/.test(status(agents.root)));
    assert.equal(number(agents.root), first);

    // A placement gives the numbers of workers, so that there is no control for these.
    fs.writeFileSync("placed.ini", "[machine]\nfile = 2x4xa100@100gbe\nplacement = 2, 22, 44\n[workload]\nmodel = resnet50\nbatch_per_worker = 32\n[sync]\nmode = allreduce\n");
    execFileSync(dlsim, ["placed.ini", "--html", "placed.html", "--quiet"]);
    const placed = run(fs.readFileSync("placed.html", "utf8"));
    await until(() => status(placed.root), () => ended(placed.root));
    assert.ok(!control(placed.root, "workers"));
    set(placed.root, "batch", "64", "input");
    await until(() => status(placed.root), () => /^Simulated/.test(status(placed.root)));
    assert.equal(number(placed.root), Number(throughput(["placed.ini", "--batch-per-worker", "64"]).toPrecision(4)));

    // A machine that is a file is in the page, whose simulator does not know the file's folder; so is
    // a network's config.json.
    fs.writeFileSync("config.json", JSON.stringify({ model_type: "gpt2", n_layer: 2, n_embd: 768, n_head: 12, n_positions: 128, vocab_size: 50257 }));
    execFileSync(dlsim, ["--workload", "config.json:fused=yes", "--machine", "2xh100", "--batch-per-worker", "8", "--workers", "2", "--html", "config.html", "--quiet"]);
    const configured = run(fs.readFileSync("config.html", "utf8"));
    await until(() => status(configured.root), () => ended(configured.root));
    assert.match(control(configured.root, "checked").textContent, /for the point of the results/);
    execFileSync(dlsim, ["--samples-per-s", "334", "--parameters", "25.6M", "--machine", "dgx1_v100", "--batch-per-worker", "32", "--workers", "8",
        "--html", "file.html", "--quiet"]);
    const ofFile = run(fs.readFileSync("file.html", "utf8"));
    await until(() => status(ofFile.root), () => ended(ofFile.root));
    assert.match(control(ofFile.root, "checked").textContent, /for the point of the results/);

    // Without a scenario: networks and machines by name, or the user's numbers.
    execFileSync(dlsim, ["--html", "empty.html", "--quiet"]);
    const empty = run(fs.readFileSync("empty.html", "utf8"));
    await until(() => status(empty.root), () => ended(empty.root));
    assert.equal(number(empty.root), Number(throughput(["--workload", "resnet50", "--machine", "8xh100", "--workers", "8",
        "--batch-per-worker", "32", "--mode", "allreduce"]).toPrecision(4)));
    // Modes with a key have their usual names.
    set(empty.root, "mode", "fsdp", "change");
    await until(() => status(empty.root), () => /--mode fsdp/.test(control(empty.root, "command").textContent) && /^Simulated/.test(status(empty.root)));
    assert.equal(number(empty.root), Number(throughput(["--workload", "resnet50", "--machine", "8xh100", "--workers", "8",
        "--batch-per-worker", "32", "--mode", "fsdp"]).toPrecision(4)));
    set(empty.root, "mode", "diloco", "change");
    await until("the interval", () => !control(empty.root, "interval").hidden && /--mode diloco --interval 16/.test(control(empty.root, "command").textContent));
    set(empty.root, "mode", "allreduce", "change");
    // The error of a machine with fewer GPUs than workers.
    set(empty.root, "machine", "4xh100", "change");
    await until(() => status(empty.root), () => /^--workers 1,2,4,8: 8 workers, but (4xh100 has )?4 GPUs/.test(status(empty.root)));
    set(empty.root, "machine", "8xh100", "change");
    // What does not fit says so.
    set(empty.root, "batch", "65536", "input");
    await until(() => answerOf(empty.root), () => /^None of 4 points fits .* too much/.test(answerOf(empty.root)));
    set(empty.root, "batch", "32", "input");
    await until(() => answerOf(empty.root), () => /^\d+ samples.s/.test(answerOf(empty.root)));
    // Sites far apart.
    for (const [name, value] of [["machine", "2x8xh100@100gbe"], ["workers", "16"], ["sites", "2"], ["site_rate", "1Gb/s"], ["site_latency", "20ms"]])
        set(empty.root, name, value, name === "workers" ? "input" : "change");
    const far = ["--workload", "resnet50", "--machine", "2x8xh100@100gbe", "--workers", "1,2,4,8,16", "--batch-per-worker", "32", "--mode", "allreduce",
        "--set", "network.sites=2", "--set", "machine.site_bytes_per_s=1Gb/s", "--set", "network.site_latency_ns=20ms"];
    await until(() => status(empty.root), () => control(empty.root, "command").textContent === "dlsim " + far.join(" ") && /^Simulated/.test(status(empty.root)));
    assert.equal(number(empty.root), Number(throughput(far).toPrecision(4)));
    for (const name of ["sites", "site_rate", "site_latency"]) set(empty.root, name, "", "change");
    set(empty.root, "workers", "8", "input");
    set(empty.root, "machine", "8xh100", "change");
    set(empty.root, "workload", "", "change");
    await until(() => status(empty.root), () => /--samples-per-s 512/.test(control(empty.root, "command").textContent) && /^Simulated/.test(status(empty.root)));
    assert.equal(number(empty.root), Number(throughput(["--samples-per-s", "512", "--parameters", "25.6M", "--machine", "8xh100", "--workers", "8",
        "--batch-per-worker", "32", "--mode", "allreduce"]).toPrecision(4)));
    console.log("all of the page holds");
}
main().then(() => process.exit(0), error => { console.error(error); process.exit(1); });
