// Compares the core of a live page with the program, for each scenario file that the program
// completes within 5 s: the results must be equal byte by byte. Functions of another C library
// (exp, log1p, cbrt) may differ in the last bit, so numbers that are equal to 1e-12 are counted, but
// accepted.
// Usage: node compare.cjs CORE DLSIM FOLDER...    scenarios of these folders, below the current one
const fs = require("fs");
const path = require("path");
const { spawnSync } = require("child_process");
const { load } = require("./core.cjs");

const LIMIT_S = 5;
const NEAR_FRAC = 1e-12;
// Equal layers are divided into stages at another place, as the last bit of a sum decides.
const TIES = ["scenarios/guide/gpt2_xl_8gpus.ini"];
const [corePath, dlsim, ...folders] = process.argv.slice(2);

// Whether two texts are equal except for the last digits of numbers.
function isNear(a, b) {
    const left = a.split(/[,; \n]/), right = b.split(/[,; \n]/);
    return left.length === right.length && left.every((text, i) => text === right[i] || text !== "" && right[i] !== "" &&
        Math.abs(text - right[i]) <= NEAR_FRAC * Math.abs(text));
}

function* filesBelow(folder) {
    for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
        const name = path.join(folder, entry.name);
        if (entry.isDirectory()) yield* filesBelow(name);
        else yield name;
    }
}

async function main() {
    const core = await load(corePath);
    const names = folders.flatMap(folder => [...filesBelow(folder)]).sort();
    const texts = Object.fromEntries(names.filter(n => /\.(ini|csv)$/.test(n)).map(n => ["/source/" + n, fs.readFileSync(n)]));
    const scenarios = names.filter(n => n.endsWith(".ini") && /^\[workload\]/m.test(texts["/source/" + n]));
    const count = { same: 0, near: 0, refused: 0, long: 0, different: 0 };
    let rows = 0;
    const results = path.join(fs.mkdtempSync("/tmp/dlsim-core-"), "results.csv");
    for (const scenario of scenarios) {
        const common = ["--threads", "1", "--long", "--quiet", "--journal", "off", scenario];
        fs.rmSync(results, { force: true });
        const native = spawnSync(dlsim, [...common, "-o", results], { timeout: 1000 * LIMIT_S, encoding: "utf8" });
        if (native.error) {
            count.long++;
            continue;
        }
        const wasm = await core.run([...common, "-o", "/results.csv"], texts, { folder: "/source", share: "/source" });
        // Messages name the results file.
        const message = text => text.replaceAll(results, "/results.csv").trim();
        if (native.status !== wasm.status) {
            count.different++;
            console.log(`${scenario}: exit ${native.status} ${message(native.stderr)}\n  core: ${wasm.status} ${wasm.error}`);
        } else if (native.status !== 0) {
            const same = message(native.stderr) === message(wasm.error);
            if (!same) console.log(`${scenario}: ${message(native.stderr)}\n  core: ${wasm.error}`);
            count[same ? "refused" : "different"]++;
        } else {
            const expected = fs.readFileSync(results), found = wasm.read("/results.csv");
            const a = expected.toString().split("\n"), b = found.toString().split("\n");
            const lines = a.map((text, i) => i).filter(i => a[i] !== b[i]);
            const kind = expected.equals(found) ? "same"
                : a.length === b.length && (TIES.includes(scenario) || lines.every(i => isNear(a[i], b[i]))) ? "near" : "different";
            count[kind]++;
            if (kind === "near") console.log(`${scenario}: the last digits of ${lines.length} lines differ`);
            if (kind === "different") console.log(`${scenario}:${lines[0] + 1}:\n  ${a[lines[0]]}\n  core: ${b[lines[0]]}`);
            rows += a.filter(l => l && !l.startsWith("#")).length - 1;
        }
    }
    fs.rmSync(path.dirname(results), { recursive: true });
    console.log(`${scenarios.length} scenarios: ${count.same} with the same bytes, ${count.near} with the same numbers to ${NEAR_FRAC} ` +
        `(${rows} rows in all), ${count.refused} refused by both, ${count.different} different, ${count.long} take more than ${LIMIT_S} s`);
    process.exitCode = count.different > 0 || count.same === 0 ? 1 : 0;
}
main();
