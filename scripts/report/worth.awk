# What a cost is worth at one row: "COST RATIO", throughput without the cost over that with it.
#   awk -v row=N -v cost=NAME -f csv.awk -f worth.awk RESULTS.csv WITHOUT.csv
/^#/ || /^$/ { next }
FILENAME != file { file = FILENAME; files++; n = 0; csv_header($0, at, names); next }
++n == row { csv_cells($0, cell); rate[files] = cell[at["throughput_per_s"]] }
END { if (rate[1] > 0 && rate[2] > 0) print cost, rate[2] / rate[1] }
