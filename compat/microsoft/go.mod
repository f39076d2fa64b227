module github.com/graphrun/graphrun/compat/microsoft

go 1.26.0

require (
	github.com/graphrun/graphrun v0.0.0-20261201015914-748e6be831da
	github.com/graphrun/graphrun/compat/onnxruntime v0.0.0-20261201015914-748e6be831da
)
