//go:build (linux || darwin) && (amd64 || arm64)

package vulkan

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ebitengine/purego"
)

// loader is Vulkan's loader: the library that finds drivers and forwards calls to them.
const loader = "libvulkan.so.1"

// manifestFolders are the folders of manifests: JSON files that each name the library of a driver.
var manifestFolders = []string{"/etc/vulkan/icd.d", "/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d"}

// libraries returns the libraries to open: the loader if it is installed, otherwise the libraries of all drivers.
func libraries() []string {
	if h, err := purego.Dlopen(loader, purego.RTLD_NOW|purego.RTLD_LOCAL); err == nil {
		_ = purego.Dlclose(h)
		return []string{loader}
	}
	return drivers()
}

// drivers returns the libraries that manifests name. The manifests are the files in the environment variable
// VK_DRIVER_FILES or VK_ICD_FILENAMES if one is set, otherwise the files in manifestFolders.
func drivers() (list []string) {
	files := filepath.SplitList(os.Getenv("VK_DRIVER_FILES"))
	if len(files) == 0 {
		files = filepath.SplitList(os.Getenv("VK_ICD_FILENAMES"))
	}
	if len(files) == 0 {
		for _, folder := range manifestFolders {
			found, _ := filepath.Glob(filepath.Join(folder, "*.json")) // the pattern is valid
			files = append(files, found...)
		}
	}
	for _, f := range files {
		var manifest struct {
			ICD struct {
				Library string `json:"library_path"`
			}
		}
		text, err := os.ReadFile(f)
		if err != nil || json.Unmarshal(text, &manifest) != nil || manifest.ICD.Library == "" {
			continue
		}
		library := manifest.ICD.Library
		if strings.Contains(library, "/") && !filepath.IsAbs(library) {
			library = filepath.Join(filepath.Dir(f), library)
		}
		list = append(list, library)
	}
	return list
}

// entry opens a library and returns the address of its function vkGetInstanceProcAddr, which finds all other functions.
// For a driver that is opened without the loader, entry first negotiates the version of the driver's interface.
func entry(library string) (get uintptr, err error) {
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return 0, err
	}
	if get, err = purego.Dlsym(handle, "vkGetInstanceProcAddr"); err == nil {
		return get, nil
	}
	if get, err = purego.Dlsym(handle, "vk_icdGetInstanceProcAddr"); err != nil {
		return 0, err
	}
	if negotiate, err := purego.Dlsym(handle, "vk_icdNegotiateLoaderICDInterfaceVersion"); err == nil {
		version := uint32(5)
		if err := call(negotiate, uintptr(ptr(&version))); err != nil {
			return 0, err
		}
	}
	return get, nil
}

// result is a VkResult.
type result int32

// Error returns the name of an error that drivers return often.
func (r result) Error() string {
	names := map[result]string{-1: "out of host memory", -2: "out of device memory", -3: "initialization failed",
		-4: "device lost", -7: "extension not present", -8: "feature not present", -9: "incompatible driver"}
	if name, ok := names[r]; ok {
		return "vulkan: " + name
	}
	return fmt.Sprintf("vulkan: error %d", int32(r))
}

var errNoFunction = errors.New("vulkan: the driver lacks a function")
