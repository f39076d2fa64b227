package compare

import (
	"cmp"
	"encoding/csv"
	"io"
	"slices"
	"strconv"
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
		"moved_bytes", "peak_bytes", "peak_with_weights_bytes", "plan_ms", "measured_as")
	list := [][]string{heads}
	for _, r := range c.rows {
		beforeRun := []string{r.File} // the cells left of the columns run and ns
		for _, name := range symbols {
			size := ""
			if n, ok := r.Dims[name]; ok {
				size = strconv.Itoa(n)
			}
			beforeRun = append(beforeRun, size)
		}
		beforeRun = append(beforeRun, strconv.Itoa(r.Threads), r.Name)
		afterRun := []string{decimal(&r.CostNS), decimal(r.BoundNS), decimal(r.Gap), strconv.Itoa(r.Copies),
			strconv.Itoa(r.CopiedBytes), strconv.Itoa(r.MovedBytes), strconv.Itoa(r.PeakBytes),
			strconv.Itoa(r.PeakWithWeights), decimal(&r.PlanMS), cmp.Or(r.MeasuredAs, r.Name)}
		for i, ns := range r.Samples {
			list = append(list, slices.Concat(beforeRun, []string{strconv.Itoa(i + 1), decimal(&ns)}, afterRun))
		}
	}
	return list
}

// decimal formats a number without units; "" for nil.
func decimal(x *float64) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'f', -1, 64)
}
