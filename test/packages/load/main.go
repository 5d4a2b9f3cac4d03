// Command load is the exporter on the test machine. It serves the metric "load" on 127.0.0.1:9999.
// The value is the current content of a file.
package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	err := http.ListenAndServe("127.0.0.1:9999", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		value, err := os.ReadFile(os.Args[1])
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "# TYPE load gauge\nload %s\n", value)
	}))
	fmt.Fprintln(os.Stderr, "load:", err)
	os.Exit(1)
}
