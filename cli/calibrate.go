package cli

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/calibrate"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/outfile"
	"github.com/graphrun/graphrun/cli/internal/progress"
	"github.com/graphrun/graphrun/cli/internal/sections"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/devices"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/pricing"
)

type calibrateFlags struct {
	out      string
	json     bool
	device   string
	rounds   int
	budget   time.Duration
	callTime time.Duration // for how long each call is measured in a round
	force    bool          // write uncertain rates as measured
}

// calibrateReport is the document of calibrate.
type calibrateReport struct {
	File    string           `json:"file" doc:"The file of the profile; empty if it was not stored."`
	Digest  string           `json:"digest" doc:"The sha256 of the profile's canonical JSON; plans show it to identify their cost profile."`
	TookS   float64          `json:"took_s" doc:"The duration in seconds."`
	Rounds  int              `json:"rounds" doc:"The number of complete rounds; in each, all calls were measured once."`
	Load    *float64         `json:"load" doc:"The mean number of busy threads of other processes; null if unknown."`
	Drift   float64          `json:"round_spread" doc:"The slowest round relative to the fastest; median over calls."`
	Noise   string           `json:"noise" doc:"What disturbed the measurement, in words; empty for nothing."`
	Profile *pricing.Profile `json:"profile" doc:"The measured profile."`
	Rates   []calibrateRate  `json:"rates" doc:"The rates of the host with their spreads."`
	Points  []calibratePoint `json:"points" doc:"The measured calls."`
}

// calibrateRate is a rate of the profile.
type calibrateRate struct {
	Subject  string   `json:"of" doc:"The inner kernel, the kind and the bytes of a memory access, or step."`
	Unit     string   `json:"unit" doc:"The unit of work."`
	PS       float64  `json:"ps" doc:"The rate in the profile, in picoseconds per unit."`
	Measured float64  `json:"measured_ps" doc:"The rate that the measurements yield, also if it is not written."`
	BuiltIn  float64  `json:"built_in_ps" doc:"The rate in the built-in profile."`
	Spread   *float64 `json:"spread" doc:"The greatest rate of pairs of rounds, relative to the least; null if unknown."`
	Certain  bool     `json:"certain" doc:"Whether the spread is at most 1.25, so that the rate is written."`
}

// calibratePoint is a measured call.
type calibratePoint struct {
	Subject   string  `json:"of" doc:"The inner kernel (the innermost loop of an implementation) or the kind of memory access of the call; for a device, the kind of work."`
	Unit      string  `json:"unit" doc:"The unit of work: the profile has the time of one unit."`
	Bytes     float64 `json:"bytes" doc:"The bytes that the call accesses; for a device, the bytes of all calls of the run."`
	NS        float64 `json:"ns" doc:"The lower quartile of the measured times of the call, in nanoseconds; for a device, the time of a run of equal calls and of the wait for them."`
	Predicted float64 `json:"predicted_ns" doc:"The time that the profile predicts, in nanoseconds."`
}

// calibrateCommand returns the command calibrate.
func calibrateCommand() *cobra.Command {
	var f calibrateFlags
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure this machine for cost estimates",
		Long: `Measures the memory bandwidth for each cache and kind of access, the speed of the inner kernels, and
the overhead of a step, on one core, in a minute at most (--budget). As in a run of a network, other calls
evict the constants of a call from the L1 and L2 caches before it is measured. All calls are measured once
in each of several rounds, so that other programs disturb all rates alike.

The spread of a rate is the ratio of the greatest and the least rate that pairs of rounds yield. Rates whose
spread is above 1.25 are named and not written: the profile has the rate of the built-in profile instead,
times the median ratio of measured and built-in rates. If more than half of the rates are uncertain, as
after less than 4 rounds, or if other processes had more than two runnable threads per processor, nothing
is written. --force writes all rates as measured. Notes tell whether other processes were busy, whether
times differ between rounds, and how many rounds there was time for. The built-in profiles never change.

The profile is stored in the user's cache folder, in a file for this processor and instruction set. All commands
that estimate costs, such as plan, use it. Without a stored profile, they use a built-in one for the
instruction set. "graphrun plan" shows the profile in use. --out writes the profile to another file, for
--costs. --device measures a device, too: its memory, its operations, transfers, steps and waits. These times are
stored in the same profile, for this device only. If the file exists, its times of other devices are kept.`,
		Example: `  graphrun calibrate
  graphrun calibrate --out server.json
  graphrun plan model.onnx --costs server.json`,
		Args: command.NoArguments,
		RunE: exit.WithExitCode(func(cmd *cobra.Command, _ []string) error {
			if f.rounds < 1 {
				return exit.UsageErrorf("--rounds %d: want at least 1", f.rounds)
			}
			if f.callTime <= 0 {
				return exit.UsageErrorf("--each %v: want a positive time", f.callTime)
			}
			if f.budget <= 0 {
				return exit.UsageErrorf("--budget %v: want a positive time", f.budget)
			}
			return runCalibrate(cmd, f)
		}),
	}
	cmd.Flags().StringVar(&f.out, "out", "", "write the profile to `FILE` instead of the user's cache folder")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.Flags().IntVar(&f.rounds, "rounds", 5, "measure everything `N` times; no rate is certain after less than 4")
	cmd.Flags().DurationVar(&f.budget, "budget", time.Minute, "end the rounds after `TIME`; the first is always complete")
	cmd.Flags().BoolVar(&f.force, "force", false, "write all rates as measured, also uncertain ones")
	cmd.Flags().DurationVar(&f.callTime, "each", 12*time.Millisecond, "measure each call for `TIME` in each round")
	command.DeviceFlag(cmd, &f.device)
	cmd.Flags().Lookup("device").Usage = "measure the device `NAME`, too: " + strings.Join(devices.Names(), ", ")
	_ = cmd.MarkFlagFilename("out", "json")
	return cmd
}

// calibrateMaxBytes is the value of [calibrate.Options.MaxBytes]; 0 means the default. A test sets a lower value,
// because large calls take seconds.
var calibrateMaxBytes int

// runCalibrate measures the machine, stores the profile, and prints the speeds.
func runCalibrate(cmd *cobra.Command, f calibrateFlags) error {
	if err := outfile.CheckWritable("--out", f.out); err != nil {
		return err
	}
	device, err := openMeasured(cmd, f.device)
	if err != nil {
		return err
	}
	job := progress.Begin(cmd, "calibrate")
	defer job.End() // if Do panics
	start := time.Now()
	options := calibrate.Options{Rounds: f.rounds, Budget: f.budget, CallTime: f.callTime, Force: f.force, Device: device,
		MaxBytes: calibrateMaxBytes,
		Progress: func(done, total int, _ string) { job.Report(done, total) }}
	var result *calibrate.Result
	err = job.Do(progress.Running, func() (err error) {
		result, err = calibrate.Run(job.Context, options)
		return err
	})
	job.End()
	if interruptErr := exit.InterruptError(job.Context); interruptErr != nil {
		return interruptErr
	}
	if err != nil {
		return err
	}
	keepDevices(f.out, result.Profile)
	doc := calibrateReportOf(result, time.Since(start))
	tooUncertain := result.Check()
	if tooUncertain == nil || f.force {
		tooUncertain = nil
		if doc.File, err = storeProfile(cmd, f.out, result.Profile); err != nil {
			return err
		}
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	if f.json {
		document.Write(out, doc)
	} else {
		doc.write(out, term.StdoutDisplay(cmd))
	}
	if err := out.Flush(); err != nil || tooUncertain == nil {
		return err
	}
	return fmt.Errorf("%w; nothing was written. Repeat it on an idle machine or with a longer --budget; --force writes "+
		"the rates as measured", tooUncertain)
}

// openMeasured opens the device to measure. It returns nil for the host. If the name is auto and no device can be
// opened, openMeasured prints a note with the reasons.
func openMeasured(cmd *cobra.Command, name string) (graph.Device, error) {
	device, err := devices.Open(name)
	if err != nil {
		return nil, exit.UsageErrorf("--device %s: %w", name, err)
	}
	if device == nil && name == devices.Auto {
		term.PrintNote(cmd, "--device %s: only the host is measured: %s", name, devices.WhyNone())
	}
	return device, nil
}

// keepDevices adds the devices of the stored profile to the new profile, which will replace the stored profile. For a
// device in both profiles, the new measurements hold.
func keepDevices(path string, profile *pricing.Profile) {
	if path == "" {
		path, _ = pricing.ProfilePath() // on an error, storeProfile reports it
	}
	stored, err := pricing.ReadProfile(path)
	if err != nil || stored.Devices == nil { // there is nothing to keep
		return
	}
	maps.Copy(stored.Devices, profile.Devices)
	profile.Devices = stored.Devices
}

// calibrateReportOf returns the document of a measurement, without the file.
func calibrateReportOf(result *calibrate.Result, took time.Duration) *calibrateReport {
	doc := &calibrateReport{Digest: result.Profile.Digest(), TookS: took.Seconds(), Rounds: result.Rounds,
		Load: result.Load, Drift: result.RoundSpread, Noise: result.Noise, Profile: result.Profile}
	for _, rate := range result.Rates {
		row := calibrateRate{Subject: rate.Of, Unit: rate.Unit, PS: rate.PS, Measured: rate.MeasuredPS,
			BuiltIn: rate.BuiltInPS, Certain: rate.IsCertain}
		if !math.IsInf(rate.Spread, 0) {
			row.Spread = &rate.Spread
		}
		doc.Rates = append(doc.Rates, row)
	}
	for _, point := range result.Points {
		doc.Points = append(doc.Points, calibratePoint{Subject: point.Of, Unit: point.Unit, Bytes: point.Bytes,
			NS: point.NS, Predicted: point.PredictedNS})
	}
	return doc
}

// storeProfile writes a profile to path, or to the cache folder if path is empty, and returns the path of the file. If
// the cache folder cannot be written, storeProfile prints a message to stderr and returns "" and no error.
func storeProfile(cmd *cobra.Command, path string, profile *pricing.Profile) (string, error) {
	text, err := profile.JSON()
	if err != nil {
		return "", err
	}
	write := func(path string) error {
		return outfile.Write(cmd.Context(), path, func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
	}
	if path != "" {
		return path, write(path)
	}
	if path, err = pricing.ProfilePath(); err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = write(path)
	}
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "the profile was not stored: %v; use --out FILE\n", outfile.Cause(err))
		return "", nil
	}
	return path, nil
}

// write prints the measured speeds.
func (d *calibrateReport) write(w *bufio.Writer, display term.Display) {
	profile := d.Profile
	fmt.Fprintf(w, "%s, %s: overhead of a step %s; %s in %.0f s\n", profile.CPU, profile.Instructions,
		format.Nanoseconds(profile.StepPS/pricing.PSPerNS), format.Count(d.Rounds, "round"), d.TookS)
	if d.File != "" {
		fmt.Fprintf(w, "stored in %s (%s)\n", d.File, d.Digest[:min(len(d.Digest), sections.ShortDigest)])
	}
	if d.Noise != "" {
		display.WriteSentences(w, "noise: "+d.Noise)
	}
	d.writeUncertain(w, display)
	d.writeMemory(w, display)
	d.writeKernels(w, display)
	writeDevices(w, display, profile)
}

// writeUncertain prints the uncertain rates.
func (d *calibrateReport) writeUncertain(w *bufio.Writer, display term.Display) {
	uncertain := slices.DeleteFunc(slices.Clone(d.Rates), func(r calibrateRate) bool { return r.Certain })
	columns := []term.Column{term.NameCol("rate"), term.UntruncatedCol("spread"), term.UntruncatedCol("measured"),
		term.UntruncatedCol("built-in"), term.UntruncatedCol("in the profile")}
	title := fmt.Sprintf("Uncertain rates, %d of %d", len(uncertain), len(d.Rates))
	term.WriteList(w, display, title, uncertain, columns, func(r calibrateRate) []any {
		return []any{r.Subject, spreadText(r.Spread), unitTime(r.Measured), unitTime(r.BuiltIn), unitTime(r.PS)}
	})
}

// spreadText returns the spread of a rate.
func spreadText(spread *float64) string {
	if spread == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.2f", *spread)
}

// unitTime returns the time of a unit, which is given in picoseconds.
func unitTime(ps float64) string { return fmt.Sprintf("%.4g ns", ps/pricing.PSPerNS) }

// writeMemory prints the memory speeds in GB/s with their spreads: a row for each measured number of bytes that a call
// accesses, and a column for each kind of access.
func (d *calibrateReport) writeMemory(w *bufio.Writer, display term.Display) {
	columns := []term.Column{term.UntruncatedCol("bytes")}
	for _, access := range memoryCurves(&d.Profile.Memory) {
		columns = append(columns, term.UntruncatedCol(access.column))
	}
	term.WriteList(w, display, "Memory in GB/s, with spreads, by the bytes of a call", d.memoryRows(), columns,
		func(row []any) []any { return row })
}

// memoryRows returns the rows of the table of writeMemory.
func (d *calibrateReport) memoryRows() [][]any {
	var rows [][]any
	for i, point := range d.Profile.Memory.Dense {
		row := []any{format.Bytes(int(point.Bytes))}
		for _, access := range memoryCurves(&d.Profile.Memory) {
			speed := "-"
			if ps := access.curve.At(point.Bytes); ps > 0 { // picoseconds per byte
				speed = fmt.Sprintf("%.3g", pricing.PSPerNS/ps)
			}
			if i < len(access.curve) {
				speed += d.spreadOfPoint(access.name, i)
			}
			row = append(row, speed)
		}
		rows = append(rows, row)
	}
	return rows
}

// spreadOfPoint returns the spread of point i of a curve in parentheses, or "" if it is unknown.
func (d *calibrateReport) spreadOfPoint(access string, i int) string {
	for _, rate := range d.Rates {
		if strings.HasPrefix(rate.Subject, access+" ") {
			if i == 0 && rate.Spread != nil {
				return fmt.Sprintf(" (%s)", spreadText(rate.Spread))
			}
			i--
		}
	}
	return ""
}

// memoryCurve is the measured speed of one kind of memory access, its column in the table, and its name in rates.
type memoryCurve struct {
	column, name string
	curve        pricing.Curve
}

// memoryCurves returns the curves of all kinds of access, in the order of the table. The field DenseConstants is for
// sequential access to constants, and Dense for sequential access to other operands and to results.
func memoryCurves(rates *pricing.Rates) (list []memoryCurve) {
	for access := pricing.Dense; rates.CurveOf(access) != nil; access++ {
		column := access.String()
		if access == pricing.DenseConstants {
			column = "constants"
		}
		list = append(list, memoryCurve{column, access.String(), *rates.CurveOf(access)})
	}
	return list
}

// writeKernels prints the speeds of the inner kernels, in the order of the first measured call of each.
func (d *calibrateReport) writeKernels(w *bufio.Writer, display term.Display) {
	profile := d.Profile
	var kernels []string // names
	spreadOf := map[string]string{}
	for _, rate := range d.Rates {
		spreadOf[rate.Subject] = spreadText(rate.Spread)
	}
	unitOf := map[string]string{} // the unit of work of each kernel
	for _, point := range d.Points {
		_, isKernel := profile.Kernels[point.Subject]
		if _, isListed := unitOf[point.Subject]; isKernel && !isListed {
			kernels = append(kernels, point.Subject)
			unitOf[point.Subject] = point.Unit
		}
	}
	kernelColumns := []term.Column{term.NameCol("kernel"), term.UntruncatedCol("a unit takes"),
		term.UntruncatedCol("units/ns"), term.UntruncatedCol("spread"), term.ProseCol("unit")}
	term.WriteList(w, display, "Inner kernels", kernels, kernelColumns, func(name string) []any {
		ps := profile.Kernels[name]
		rate := "-"
		if ps > 0 {
			rate = fmt.Sprintf("%.3g", pricing.PSPerNS/ps)
		}
		return []any{name, unitTime(ps), rate, spreadOf[name], unitOf[name]}
	})
}

// writeDevices prints the speeds of the devices of a profile.
func writeDevices(w *bufio.Writer, display term.Display, profile *pricing.Profile) {
	columns := []term.Column{term.NameCol("driver"), term.NameCol("device"), term.UntruncatedCol("step"),
		term.UntruncatedCol("wait"), term.UntruncatedCol("memory"), term.UntruncatedCol("operations/ns"),
		term.UntruncatedCol("upload"), term.UntruncatedCol("download")}
	perNS := func(ps float64, unit string) string {
		if ps > 0 {
			return fmt.Sprintf("%.3g%s", pricing.PSPerNS/ps, unit)
		}
		return "-"
	}
	term.WriteList(w, display, "Devices", sorted.Keys(profile.Devices), columns, func(driver string) []any {
		rates := profile.Devices[driver]
		return []any{driver, rates.Device, format.Nanoseconds(rates.StepPS / pricing.PSPerNS),
			format.Nanoseconds(rates.WaitPS / pricing.PSPerNS), perNS(rates.BytePS, " GB/s"), perNS(rates.OperationPS, ""),
			perNS(rates.UploadPS, " GB/s"), perNS(rates.DownloadPS, " GB/s")}
	})
}
