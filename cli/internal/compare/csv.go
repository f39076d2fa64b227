package compare

import (
	"cmp"
	"encoding/csv"
	"io"
	"slices"
	"strconv"

	"github.com/graphrun/graphrun/cli/internal/format"
)

// writeCSV writes the file of --csv.
func (c *comparison) writeCSV(w io.Writer) error { return csv.NewWriter(w).WriteAll(c.records()) }

// records returns the rows of the CSV file: the names of the columns, and a row for each run. A row repeats the
// properties of the run's strategy. Unknown values are empty. If several strategies have the same plan, its runs are
// listed once for each of these strategies.
func (c *comparison) records() [][]string {
	heads := []string{"file"}
	symbols := c.symbols()
	for _, name := range symbols {
		heads = append(heads, "dim_"+name)
	}
	heads = append(heads, "threads", "strategy", "run", "ns", "cost_ns", "lower_bound_ns", "gap", "copies", "copied_bytes",
		"moved_bytes", "peak_bytes", "peak_with_weights_bytes", "plan_ms", "measured_as", "measured_regret")
	if len(c.flags.variants) > 0 {
		heads = append(heads, "variant")
	}
	if c.hasDevice() {
		heads = append(heads, "device", "device_steps", "uploads", "downloads", "transferred_bytes")
	}
	list := [][]string{heads}
	for _, row := range c.rows {
		beforeRun := []string{row.File} // the cells left of the columns run and ns
		for _, name := range symbols {
			size := ""
			if n, ok := row.Dims[name]; ok {
				size = strconv.Itoa(n)
			}
			beforeRun = append(beforeRun, size)
		}
		beforeRun = append(beforeRun, strconv.Itoa(row.Threads), row.Name)
		afterRun := []string{format.Decimal(&row.CostNS), format.Decimal(row.BoundNS), format.Decimal(row.Gap),
			strconv.Itoa(row.Copies), strconv.Itoa(row.CopiedBytes), strconv.Itoa(row.MovedBytes),
			strconv.Itoa(row.PeakBytes), strconv.Itoa(row.PeakWithWeights), format.Decimal(&row.PlanMS),
			cmp.Or(row.MeasuredAs, row.Name), format.Decimal(row.Regret)}
		if len(c.flags.variants) > 0 {
			afterRun = append(afterRun, row.Variant)
		}
		if places := row.Places; places != nil { // the steps on the device of --device, and the transfers
			afterRun = append(afterRun, places.Device, strconv.Itoa(places.Steps), strconv.Itoa(places.Uploads),
				strconv.Itoa(places.Downloads), strconv.Itoa(places.TransferredBytes))
		}
		for i, ns := range row.Samples {
			list = append(list, slices.Concat(beforeRun, []string{strconv.Itoa(i + 1), format.Decimal(&ns)}, afterRun))
		}
	}
	return list
}

// hasDevice reports whether the plans are for the device of --device. It is false without --device.
func (c *comparison) hasDevice() bool { return len(c.rows) > 0 && c.rows[0].Places != nil }
