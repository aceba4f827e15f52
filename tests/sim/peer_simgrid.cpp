// The work of tests/sim/peers.h on SimGrid: prints the simulated time and that of its run phase.
//   peer_simgrid ring|boxes|server WORKERS STEPS SAMPLES [SimGrid's options]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

namespace s4u = simgrid::s4u;

namespace
{

constexpr double bytes = 100e6, port_bytes_per_s = 12.5e9, port_s = 2e-6, compute_s = 0.1;
constexpr double flop_per_s = 1e9;

struct Work {
    int workers, steps;
    std::vector<double> factors; // of the computing time, [workers x steps]
    std::vector<s4u::Host *> hosts;

    void compute(int worker, int step) const
    {
        const double factor = factors[static_cast<size_t>(worker) * steps + step];
        s4u::this_actor::execute(compute_s * factor * flop_per_s);
    }
};

// A rank sends a piece to the next one and waits for its own and for the one from the rank before.
void reduce_in_a_ring(const Work *work, int rank)
{
    const int n = work->workers;
    s4u::Mailbox *next = s4u::Mailbox::by_name(std::to_string((rank + 1) % n));
    s4u::Mailbox *own = s4u::Mailbox::by_name(std::to_string(rank));
    int piece = rank;
    for (int step = 0; step < work->steps; step++) {
        work->compute(rank, step);
        for (int round = 0; round < 2 * (n - 1); round++) {
            s4u::CommPtr sent = next->put_async(&piece, static_cast<uint64_t>(bytes / n));
            own->get<int>();
            sent->wait();
        }
    }
}

void push_and_pull(const Work *work, int worker)
{
    s4u::Host *server = work->hosts[work->workers], *host = work->hosts[worker];
    for (int step = 0; step < work->steps; step++) {
        work->compute(worker, step);
        s4u::Comm::sendto(host, server, static_cast<uint64_t>(bytes));
        s4u::Comm::sendto(server, host, static_cast<uint64_t>(bytes));
    }
}

void make_switch(Work &work)
{
    s4u::NetZone *zone = s4u::create_star_zone("switch");
    for (int i = 0; i <= work.workers; i++) { // the last one is the server's
        const std::string name = std::to_string(i);
        s4u::Host *host = zone->create_host("node" + name, flop_per_s);
        const auto *port = zone->create_split_duplex_link("port" + name, port_bytes_per_s)
                               ->set_latency(port_s)
                               ->seal();
        zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr,
                        {{port, s4u::LinkInRoute::Direction::UP}}, true);
        work.hosts.push_back(host);
    }
    zone->seal();
}

// The links from each GPU to the next one of the ring: four GPUs on a PCIe switch, two switches
// in a box with one port.
void make_boxes(Work &work)
{
    constexpr int box = 8, branch = 4;
    constexpr double pcie_bytes_per_s = 13e9;
    s4u::NetZone *zone = s4u::create_full_zone("boxes");
    using Link = s4u::SplitDuplexLink;
    const auto make = [zone](const std::string &name, double rate, double latency_s) {
        return zone->create_split_duplex_link(name, rate)->set_latency(latency_s)->seal();
    };
    std::vector<const s4u::SplitDuplexLink *> gpus, branches, ports;
    for (int i = 0; i < work.workers; i++) {
        const std::string name = std::to_string(i);
        work.hosts.push_back(zone->create_host("gpu" + name, flop_per_s));
        const auto add = [&](auto &links, const char *kind, double rate, double latency_s) {
            links.push_back(static_cast<const Link *>(make(kind + name, rate, latency_s)));
        };
        add(gpus, "pcie", pcie_bytes_per_s, 0);
        if (i % branch == 0) add(branches, "switch", pcie_bytes_per_s, 0);
        if (i % box == 0) add(ports, "port", port_bytes_per_s, port_s);
    }
    constexpr auto up = s4u::LinkInRoute::Direction::UP, down = s4u::LinkInRoute::Direction::DOWN;
    for (int i = 0; i < work.workers; i++) {
        const int next = (i + 1) % work.workers;
        std::vector<s4u::LinkInRoute> route = {{gpus[i], up}};
        if (i / branch != next / branch) route.push_back({branches[i / branch], up});
        if (i / box != next / box) {
            route.push_back({ports[i / box], up});
            route.push_back({ports[next / box], down});
        }
        if (i / branch != next / branch) route.push_back({branches[next / branch], down});
        route.push_back({gpus[next], down});
        zone->add_route(work.hosts[i]->get_netpoint(), work.hosts[next]->get_netpoint(), nullptr,
                        nullptr, route, work.workers > 2);
    }
    zone->seal();
}

bool read_samples(Work &work, const char *path)
{
    work.factors.resize(static_cast<size_t>(work.workers) * work.steps);
    std::unique_ptr<FILE, int (*)(FILE *)> in(std::fopen(path, "rb"), std::fclose);
    return in && std::fread(work.factors.data(), sizeof(double), work.factors.size(), in.get()) ==
                     work.factors.size();
}

} // namespace

int main(int argc, char **argv)
{
    s4u::Engine engine(&argc, argv);
    Work work;
    if (argc != 5) return 2;
    work.workers = std::atoi(argv[2]);
    work.steps = std::atoi(argv[3]);
    if (work.workers < 2 || work.steps < 1 || !read_samples(work, argv[4])) return 2;
    const bool ring = std::strcmp(argv[1], "server") != 0;
    if (std::strcmp(argv[1], "boxes") == 0) {
        make_boxes(work);
    } else {
        make_switch(work);
    }
    for (int i = 0; i < work.workers; i++)
        s4u::Actor::create("worker", work.hosts[i], ring ? reduce_in_a_ring : push_and_pull, &work,
                           i);
    const auto start = std::chrono::steady_clock::now();
    engine.run();
    const std::chrono::duration<double> ran = std::chrono::steady_clock::now() - start;
    std::printf("%.9f %.6f\n", s4u::Engine::get_clock(), ran.count());
    return 0;
}
