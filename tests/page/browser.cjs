// A page in headless Chromium, controlled by the DevTools protocol over pipes.
const { spawn } = require("child_process");
const fs = require("fs");

// {open(url, {width, height, dark}) -> page, close()}; a page has evaluate(expression),
// until(expression, seconds), screenshot(path), and problems: [text], its console messages and
// exceptions.
exports.start = async function start(program) {
    const folder = fs.mkdtempSync("/tmp/dlscale-browser-");
    const browser = spawn(program, ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
        "--user-data-dir=" + folder], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    const waiting = new Map();
    let number = 0, left = "", heard = () => {};
    browser.stdio[4].on("data", bytes => {
        const parts = (left + bytes).split("\0");
        left = parts.pop();
        for (const part of parts) {
            const message = JSON.parse(part);
            if (message.id === undefined) { heard(message); continue; }
            const { resolve, reject } = waiting.get(message.id);
            message.error ? reject(new Error(message.error.message)) : resolve(message.result);
        }
    });
    const send = (method, params = {}, sessionId) => new Promise((resolve, reject) => {
        waiting.set(++number, { resolve, reject });
        browser.stdio[3].write(JSON.stringify({ id: number, method, params, sessionId }) + "\0");
    });
    async function open(url, { width = 1400, height = 1800, dark = false } = {}) {
        const { targetId } = await send("Target.createTarget", { url: "about:blank" });
        const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
        const tell = (method, params) => send(method, params, sessionId);
        const problems = [];
        heard = ({ method, params }) => {
            if (method === "Runtime.exceptionThrown") problems.push(params.exceptionDetails.exception?.description || params.exceptionDetails.text);
            if (method === "Runtime.consoleAPICalled" && ["error", "warning"].includes(params.type)) problems.push(params.args.map(a => a.value || a.description).join(" "));
            if (method === "Log.entryAdded" && params.entry.level === "error") problems.push(params.entry.text);
        };
        await tell("Runtime.enable");
        await tell("Log.enable");
        await tell("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 600 });
        await tell("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] });
        await tell("Page.navigate", { url });
        const evaluate = async expression => {
            const { result, exceptionDetails } = await tell("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
            if (exceptionDetails) throw new Error(exceptionDetails.exception?.description || exceptionDetails.text);
            return result.value;
        };
        async function until(expression, seconds = 30) {
            const end = Date.now() + 1000 * seconds;
            for (;;) {
                if (await evaluate(expression).catch(() => false)) return;
                if (Date.now() > end) throw new Error(`not within ${seconds} s: ${expression}; problems: ${problems.join("; ")}`);
                await new Promise(wake => setTimeout(wake, 50));
            }
        }
        async function screenshot(path) {
            const { data } = await tell("Page.captureScreenshot", { format: "png" });
            fs.writeFileSync(path, Buffer.from(data, "base64"));
        }
        return { evaluate, until, screenshot, problems };
    }
    async function close() {
        const ended = new Promise(done => browser.once("exit", done));
        send("Browser.close").catch(() => {});
        await ended;
        fs.rmSync(folder, { recursive: true, force: true });
    }
    return { open, close };
};
