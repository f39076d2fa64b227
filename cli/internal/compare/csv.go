package compare

import (
	"cmp"
	"encoding/csv"
	"io"
	"slices"
	"strconv"
)

// writeCSV writes the records as CSV.
func (c *comparison) writeCSV(w io.Writer) error { return csv.NewWriter(w).WriteAll(c.records()) }

// records returns the rows of the CSV file: the names of the columns, and a row for each run. A row repeats the
// properties of the run's strategy. Unknown values are empty. If several strategies have the same plan, its runs are
// listed once for each of these strategies.
func (c *comparison) records() [][]string {
	head := []string{"file"}
	symbols := c.symbols()
	for _, name := range symbols {
		head = append(head, "dim_"+name)
	}
	head = append(head, "threads", "strategy", "run", "ns", "cost_ns", "lower_bound_ns", "gap", "copies", "copied_bytes",
		"moved_bytes", "peak_bytes", "peak_with_weights_bytes", "plan_ms", "measured_as")
	list := [][]string{head}
	for _, r := range c.rows {
		first := []string{r.File}
		for _, name := range symbols {
			size := ""
			if n, ok := r.Dims[name]; ok {
				size = strconv.Itoa(n)
			}
			first = append(first, size)
		}
		first = append(first, strconv.Itoa(r.Threads), r.Name)
		last := []string{decimal(&r.CostNS), decimal(r.BoundNS), decimal(r.Gap), strconv.Itoa(r.Copies),
			strconv.Itoa(r.CopiedBytes), strconv.Itoa(r.MovedBytes), strconv.Itoa(r.PeakBytes),
			strconv.Itoa(r.PeakWithWeights), decimal(&r.PlanMS), cmp.Or(r.MeasuredAs, r.Name)}
		for i, ns := range r.Samples {
			list = append(list, slices.Concat(first, []string{strconv.Itoa(i + 1), decimal(&ns)}, last))
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
