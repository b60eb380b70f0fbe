// Prints what a shared informer over the ConfigMaps of a namespace sees, one line of JSON for each event.
//
// Usage: informer KUBECONFIG NAMESPACE
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// The annotation that tells one write from all others.
const token = "e2e.polity.dev/token"

type event struct {
	Type  string `json:"type"`
	Name  string `json:"name,omitempty"`
	UID   string `json:"uid,omitempty"`
	Token string `json:"token,omitempty"`
}

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig, namespace string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	handlers, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(added any) { tell("add", added) },
		UpdateFunc: func(_, updated any) { tell("update", updated) },
		DeleteFunc: func(deleted any) {
			// Of what went while nobody watched, the informer hands out what it knew last.
			if unknown, ok := deleted.(cache.DeletedFinalStateUnknown); ok {
				deleted = unknown.Obj
			}
			tell("delete", deleted)
		},
	})
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	factory.Start(stop)
	cache.WaitForCacheSync(stop, handlers.HasSynced)
	write(event{Type: "synced"})

	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
	close(stop)
	factory.Shutdown()
	return nil
}

func tell(kind string, object any) {
	configMap := object.(*corev1.ConfigMap)
	write(event{Type: kind, Name: configMap.Name, UID: string(configMap.UID), Token: configMap.Annotations[token]})
}

// Handlers of one informer run one after the other, so lines never mix.
func write(event event) {
	line, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}
