//go:build (linux || darwin) && (amd64 || arm64)

package vulkan

import (
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestDrivers reads manifests of drivers.
func TestDrivers(t *testing.T) {
	folder := t.TempDir()
	files := map[string]string{
		"a.json": `{"file_format_version": "1.0.0", "ICD": {"library_path": "libvulkan_a.so"}}`,
		"b.json": `{"ICD": {"library_path": "../lib/libvulkan_b.so"}}`, "c.json": `{"ICD": {}}`, "d.json": "not JSON"}
	list := filepath.Join(folder, "missing.json")
	for _, name := range []string{"a.json", "b.json", "c.json", "d.json"} {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(files[name]), 0o600))
		list += string(filepath.ListSeparator) + path
	}
	t.Setenv("VK_DRIVER_FILES", list)
	want := []string{"libvulkan_a.so", filepath.Join(filepath.Dir(folder), "lib/libvulkan_b.so")}
	require.Equal(t, want, drivers())
}

// TestWithoutLoader opens the drivers of this machine directly.
func TestWithoutLoader(t *testing.T) {
	opened := 0
	for _, library := range drivers() {
		i, err := openInstance(library)
		if err != nil {
			t.Logf("%s: %v", library, err)
			continue
		}
		list, err := i.openDevices()
		for _, d := range list {
			t.Logf("%s: %s", library, d.Info().Name)
			d.Close()
			opened++
		}
		if err != nil {
			t.Logf("%s: %v", library, err)
		}
	}
	if opened == 0 {
		t.Skip("no device without the loader")
	}
}

// TestStructs compares sizes with those of the specification of the interface for 64-bit processors.
func TestStructs(t *testing.T) {
	require.EqualValues(t, 48, unsafe.Sizeof(applicationInfo{}))
	require.EqualValues(t, 96, unsafe.Sizeof(computePipelineCreateInfo{}))
	require.EqualValues(t, 72, unsafe.Sizeof(submitInfo{}))
	require.EqualValues(t, 16+824, unsafe.Sizeof(physicalDeviceProperties2{}))
}
