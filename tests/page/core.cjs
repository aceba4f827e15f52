// The core of a live page (sim/report/page/dlsim.core) in Node.js. Each run has its own instance,
// with a file system in memory.
const fs = require("fs");

// Returns {version, commit, run(args, files, where)}. files: {path: bytes} for the run. where:
// {folder, share}, the current folder and the replacement of share/dlscale. A run returns {status,
// out, error, read(path)}.
exports.load = async function load(path) {
    const [head, glue, binary] = fs.readFileSync(path, "latin1").split("\n");
    const [, , version, commit] = head.split(" ");
    const live = fs.readFileSync(`${__dirname}/../../sim/report/page/live.js`, "utf8");
    const unpack = new Function(live.match(/^function decode85[^]*?^const unpack.*$/m)[0] + "\nreturn unpack;")();
    const module = { exports: {} };
    new Function("module", "exports", "require", "__dirname", "__filename", Buffer.from(unpack(glue)).toString())(
        module, module.exports, require, __dirname, __filename);
    const compiled = await WebAssembly.compile(unpack(binary));
    async function run(args, files = {}, { folder = "/", share = "/share" } = {}) {
        const out = [], error = [];
        const core = await module.exports({
            instantiateWasm(imports, use) {
                WebAssembly.instantiate(compiled, imports).then(use);
                return {};
            },
            print: line => out.push(line),
            printErr: line => error.push(line),
            quit(status, thrown) { throw thrown; },
            preRun: [m => {
                m.ENV.DLSCALE_SHARE = share;
                m.FS.mkdirTree(folder);
                m.FS.chdir(folder);
                for (const [name, bytes] of Object.entries(files)) {
                    m.FS.mkdirTree(name.slice(0, name.lastIndexOf("/")));
                    m.FS.writeFile(name, bytes);
                }
            }],
        });
        let status;
        try {
            status = core.callMain(args);
        } catch (thrown) {
            if (thrown.name !== "ExitStatus") throw thrown;
            status = thrown.status;
        }
        return { status, out: out.join("\n"), error: error.join("\n"), read: p => Buffer.from(core.FS.readFile(p)) };
    }
    return { version, commit, run };
};
