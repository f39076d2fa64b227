package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/gpu"
	"github.com/graphrun/graphrun/internal/gpu/device"
)

// report is the output of `graphrun-gpu devices`.
type report struct {
	Devices []deviceReport `json:"devices"`
	Skipped string         `json:"skipped,omitempty"` // the errors of drivers and devices that could not be opened
}

// deviceReport describes a device as [device.Info] does.
type deviceReport struct {
	Name     string   `json:"name"`
	Driver   string   `json:"driver"`
	Kind     string   `json:"kind"`
	Memory   int      `json:"memory_bytes"`
	Promises []string `json:"promises"`      // the operations that the device computes exactly, with their dtypes
	Lacks    []string `json:"lacks"`         // the operations that are not exact or not available
	CopyGBs  float64  `json:"copy_gb_per_s"` // 10^9 bytes per second: read bytes plus written bytes
}

// devicesCommand returns the command devices.
func devicesCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "List devices, what they compute exactly, and their copy bandwidth",
		Long: `Opens all devices of Vulkan and of CUDA. Each device computes sums, products, quotients, square roots and fused
multiply-adds of random and special numbers. An operation is listed as exact if all results equal those of the
processor. The copy bandwidth counts the bytes that are read and the bytes that are written. Other commands run
graphs on a device with --device.`,
		Example: `  graphrun-gpu devices
  graphrun-gpu devices --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			devices, err := listDevices()
			if err != nil {
				return err
			}
			if asJSON {
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(devices)
			}
			return devices.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON document")
	return cmd
}

// listDevices opens all devices and describes them. It returns an error if there are none.
func listDevices() (*report, error) {
	list, err := gpu.Open()
	devices := &report{Devices: []deviceReport{}}
	if err != nil {
		devices.Skipped = err.Error()
	}
	for _, d := range list {
		defer d.Close()
		reported := describe(d.Info())
		bandwidth, err := gpu.CopyBandwidth(d)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", reported.Name, err)
		}
		reported.CopyGBs = bandwidth / 1e9
		devices.Devices = append(devices.Devices, reported)
	}
	if len(list) == 0 {
		return nil, errors.New("there are no devices: " + strings.ReplaceAll(devices.Skipped, "\n", "; "))
	}
	return devices, nil
}

// describe returns the report of a device, without its bandwidth.
func describe(info device.Info) deviceReport {
	described := deviceReport{Name: info.Name, Driver: info.Driver, Kind: info.Kind, Memory: info.Memory,
		Promises: []string{"int64"}, Lacks: []string{}} // every opened device has int64
	exact := info.ExactOps
	for _, operation := range []struct {
		name    string
		isExact bool
	}{
		{"float32 sums and products with subnormal numbers", exact.Exact32}, {"float32 division", exact.Div32},
		{"float32 square root", exact.Sqrt32}, {"float32 fused multiply-add", exact.FMA32}, {"float64", exact.Float64},
		{"float64 sums and products with subnormal numbers", exact.Exact64}, {"float64 division", exact.Div64},
		{"float64 floor, ceil, trunc and rint", exact.Round64},
		{"float64 square root", exact.Sqrt64}, {"float64 fused multiply-add", exact.FMA64}, {"float16", info.Float16},
	} {
		if operation.isExact {
			described.Promises = append(described.Promises, operation.name)
		} else {
			described.Lacks = append(described.Lacks, operation.name)
		}
	}
	return described
}

// print writes the report as text.
func (r *report) print(w io.Writer) error {
	var text strings.Builder
	for _, d := range r.Devices {
		fmt.Fprintf(&text, "%s: %s, %s, %.1f GiB, copies %.1f GB/s\n", d.Name, d.Driver, d.Kind,
			float64(d.Memory)/(1<<30), d.CopyGBs)
		fmt.Fprintf(&text, "  exact: %s\n", strings.Join(d.Promises, ", "))
		if len(d.Lacks) > 0 {
			fmt.Fprintf(&text, "  not exact or not available: %s\n", strings.Join(d.Lacks, ", "))
		}
	}
	if r.Skipped != "" {
		fmt.Fprintf(&text, "not opened: %s\n", strings.ReplaceAll(r.Skipped, "\n", "\n  "))
	}
	_, err := io.WriteString(w, text.String())
	return err
}
