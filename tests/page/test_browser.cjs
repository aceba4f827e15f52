// Live pages in Chromium, wide and narrow, light and dark: every control is changed, numbers equal
// those of the program, the console has no messages, every control has a label, and no element is
// wider than the page.
// Usage: node test_browser.cjs CHROMIUM DLSIM FOLDER    pages and pictures go to FOLDER
const assert = require("assert");
const fs = require("fs");
const path = require("path");
const { execFileSync } = require("child_process");
const { start } = require("./browser.cjs");

const [chromium, dlsim, folder] = process.argv.slice(2);
const study = ["--workload", "gpt2", "--set", "machine.price_usd_per_hour=2", "--machine", "2xrtx3090@1gbe", "--workers", "1,2",
    "--mode", "allreduce,average", "--set", "sync.interval=50", "--batch-per-worker", "4"];
// A study with a measured row that loses its point by the controls.
const measured = ["--workload", "resnet50", "--machine", "2xrtx3090@1gbe", "--workers", "1,2", "--batch-per-worker", "32", "--measured", "measured.csv"];
const rows = "workers,batch,sync,throughput_per_s\n2,64,allreduce,300\n";
const status = `document.querySelector("#live [role=status]").textContent`;
const checked = `document.getElementById("live-checked").textContent`;
const shown = `document.querySelector("#live .answer strong").textContent`;
// Runs a command line, so that the command shown by the page is tested.
const throughput = words => {
    const rows = JSON.parse(execFileSync(dlsim, [...words, "--json", "-", "--quiet"], { cwd: folder })).rows;
    return Number(rows.at(-1).throughput_per_s.toPrecision(4)) + " samples/s";
};
const changes = [["workers", 2], ["batch", 16], ["mode", "average"], ["interval", 8], ["machine", "4x8xa100@100gbe"], ["workers", 16],
    ["port", "10Gb/s"], ["sites", 2], ["site_rate", "1Gb/s"], ["site_latency", "20ms"], ["price", 12]];
// Changes to modes that do not use the scenario's interval.
const others = [["mode", "softsync"], ["bound", 3], ["k", 2], ["mode", "kasync"], ["mode", "allreduce"], ["workers", 4], ["layout", "fsdp=4"]];

async function check(browser, name, options) {
    const page = await browser.open("file://" + path.resolve(folder, name + ".html"), options);
    const began = Date.now();
    await page.until(`!document.querySelector("#live fieldset").disabled`);
    const ready_s = (Date.now() - began) / 1000;
    await page.until(`/^(Simulated in|The simulator (in|does))/.test(${status}) || /^Checked/.test(${checked})`);
    if (name === "study") assert.match(await page.evaluate(checked), /^Checked: .* for all 4 points of the results\.$/);
    if (name === "empty") assert.match(await page.evaluate(status), /^Simulated in/);
    await page.screenshot(path.join(folder, `${name}_${options.width}_${options.dark ? "dark" : "light"}.png`));
    const unlabelled = `[...document.querySelectorAll("#live input, #live select")].filter(e => !(e.labels && e.labels.length) && !e.ariaLabel).length`;
    assert.equal(await page.evaluate(unlabelled), 0);
    assert.ok(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than the page");
    // A wide window shows whole tables, and a narrow one the gains.
    const clipped = `[...document.querySelectorAll(innerWidth > 1000 ? "main .scroll.table" : "main > .scroll.table")].slice(0, innerWidth > 1000 ? undefined : 1)
        .filter(box => box.scrollWidth > box.clientWidth).map(box => box.ariaLabel)`;
    assert.deepEqual(await page.evaluate(clipped), []);
    let slowest_s = 0;
    const all = name === "empty" ? [...changes, ...others] : changes;
    for (const [control, value] of all) {
        const from = Date.now();
        await page.evaluate(`(e => { e.value = ${JSON.stringify(value)}; e.dispatchEvent(new Event("input")); e.dispatchEvent(new Event("change")); })(document.getElementById("live-${control}"))`);
        await page.until(`document.getElementById("live-command").textContent.includes(${JSON.stringify(String(value))})`);
        await new Promise(wake => setTimeout(wake, 150));
        await page.until(`/^Simulated in/.test(${status})`);
        slowest_s = Math.max(slowest_s, (Date.now() - from) / 1000);
        const words = (await page.evaluate(`document.getElementById("live-command").textContent`)).split(" ").slice(1);
        assert.equal(await page.evaluate(shown), throughput(words), words.join(" "));
    }
    if (name === "study") {
        await checkFigures(page);
        const table = `[...document.querySelectorAll("main > .scroll table")].find(t => /^Predicted/.test(t.caption.textContent))`;
        const column = `[...${table}.tHead.rows[0].cells].findIndex(c => c.textContent === "samples/s")`;
        const sorted = async () => (await page.evaluate(`[...${table}.tBodies[0].rows].map(r => r.cells[${column}].textContent).join(" ")`)).split(" ").map(Number);
        const before = await sorted();
        for (const order of [(a, b) => b - a, (a, b) => a - b]) {
            await page.evaluate(`${table}.tHead.rows[0].cells[${column}].querySelector("button").click()`);
            assert.deepEqual(await sorted(), [...before].sort(order));
        }
        assert.match(await page.evaluate(`document.querySelector("main > .answer").textContent`), /^Fastest: 2 GPUs/);
    }
    assert.deepEqual(page.problems, []);
    await page.screenshot(path.join(folder, `${name}_${options.width}_${options.dark ? "dark" : "light"}_moved.png`));
    console.log(`${name}, ${options.width} px, ${options.dark ? "dark" : "light"}: ready after ${ready_s} s, ${all.length} changes of at most ${slowest_s} s`);
}

// Pointing at a figure shows a row; the page's time line zooms by button and key; that of the
// controls is drawn.
async function checkFigures(page) {
    assert.ok(await page.evaluate(`document.querySelectorAll("#figures figure").length`) >= 2);
    const point = target => `(e => { e.scrollIntoView(); const box = e.getBoundingClientRect(); e.closest("svg, canvas").dispatchEvent(new PointerEvent("pointermove",
        { clientX: box.x + box.width / 2, clientY: box.y + box.height / 2, bubbles: true })); })(document.querySelector(${JSON.stringify(target)}))`;
    await page.evaluate(point("#figures svg circle"));
    assert.match(await page.evaluate(`document.querySelector("#figures .tip:not([hidden])").textContent`), /samples\/s: [^]*\nassumed \[.*\] .*: samples\/s /);
    const said = `document.querySelector("#timeline [role=status]").textContent`, whole = await page.evaluate(said);
    await page.evaluate(`document.querySelector("#timeline button[aria-label='Zoom in']").click()`);
    const zoomed = await page.evaluate(said);
    assert.notEqual(zoomed, whole);
    await page.evaluate(`document.querySelector("#timeline canvas").dispatchEvent(new KeyboardEvent("keydown", { key: "0" }))`);
    assert.match(await page.evaluate(said), /^0 s to /);
    await page.evaluate(`document.getElementById("live-line").click()`);
    await page.until(`document.querySelector("#live canvas")`);
}

async function main() {
    fs.mkdirSync(folder, { recursive: true });
    execFileSync(dlsim, ["--html", "empty.html", "--quiet"], { cwd: folder });
    fs.writeFileSync(path.join(folder, "measured.csv"), rows);
    execFileSync(dlsim, [...measured, "--save", "measured.ini", "--quiet"], { cwd: folder });
    execFileSync(dlsim, ["measured.ini", "--html", "measured.html", "--quiet"], { cwd: folder });
    execFileSync(dlsim, [...study, "--save", "scenario.ini", "--html", "study.html", "--quiet"], { cwd: folder });
    const browser = await start(chromium);
    for (const name of ["empty", "study"])
        for (const width of [1400, 400])
            for (const dark of [false, true]) await check(browser, name, { width, height: 1700, dark });
    await check(browser, "measured", { width: 1400, height: 1700, dark: false });
    await browser.close();
}
main().then(() => process.exit(0), error => { console.error(error); process.exit(1); });
